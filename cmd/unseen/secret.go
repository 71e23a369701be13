package main

import (
	"fmt"
	"net/url"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// secretFlag marks a flag whose value may hold a password, which anybody on the machine can read on a command line. It
// adds a flag that names a file with the value.
func secretFlag(cmd *cobra.Command, name, what string) {
	annotate(cmd, name, secretNote, name+"-file")
	cmd.Flags().String(name+"-file", "", "`file` with "+what)
}

// privateFile marks a flag that names a file which only its owner may read.
func privateFile(cmd *cobra.Command, name string) { annotate(cmd, name, privateNote, "") }

func annotate(cmd *cobra.Command, flag, note, value string) {
	if err := cmd.Flags().SetAnnotation(flag, note, []string{value}); err != nil {
		panic(err) // only if the flag does not exist
	}
}

const maxSecret = 64 << 10

// readSecrets reads the files that hold values of flags, and refuses those that everybody can read.
func readSecrets(cmd *cobra.Command, flags []*pflag.Flag) error {
	for _, f := range flags {
		if path := f.Value.String(); f.Annotations[privateNote] != nil && path != "" {
			if info, err := os.Stat(path); err == nil && readableByAll(info.Mode()) {
				return tooOpen(path, originOf(f))
			}
		}
		note := f.Annotations[secretNote]
		if note == nil {
			continue
		}
		if from := originOf(f); from.rank == fromFlag && hasPassword(f.Value.String()) {
			fmt.Fprintf(cmd.ErrOrStderr(), "unseen: everybody on this machine can see the password in --%s; "+
				"use --%s or %s\n", f.Name, note[0], variable(cmd, f.Name))
		}
		if err := readSecret(cmd, f, cmd.Flags().Lookup(note[0])); err != nil {
			return err
		}
	}
	return nil
}

// readSecret sets a flag to the content of the file that another one names, unless the flag itself is set by something
// stronger.
func readSecret(cmd *cobra.Command, f, file *pflag.Flag) error {
	direct, from, path := originOf(f), originOf(file), file.Value.String()
	switch {
	case path == "" || direct.rank < from.rank:
		return nil
	case direct.rank == from.rank:
		return usagef("%s and %s set the same; give one of them", direct.place, from.place)
	}
	raw, mode, err := readLimited(path, maxSecret)
	if err != nil {
		return fmt.Errorf("%s: %w", from.place, err)
	}
	if readableByAll(mode) {
		return tooOpen(path, from)
	}
	text := strings.TrimRight(string(raw), "\r\n")
	if text == "" || strings.ContainsAny(text, "\r\n\x00") {
		return usagef("%s (%s): the file must hold one line, the value of --%s", path, from.place, f.Name)
	}
	if err := cmd.Flags().Set(f.Name, text); err != nil {
		return usagef("%s (%s): the value does not fit --%s", path, from.place, f.Name)
	}
	noteOrigin(f, origin{from.rank, path})
	return nil
}

// fromSecretFile reports whether the value of a flag was read from the file that another one names.
func fromSecretFile(cmd *cobra.Command, f *pflag.Flag) bool {
	note := f.Annotations[secretNote]
	return note != nil && originOf(f).place == cmd.Flags().Lookup(note[0]).Value.String()
}

// readableByAll reports whether users who are neither the owner nor of the group can read a file. Windows does not say.
func readableByAll(mode os.FileMode) bool { return runtime.GOOS != "windows" && mode.Perm()&0o004 != 0 }

func tooOpen(path string, from origin) error {
	return usagef("%s (%s): everybody can read this file, which holds a secret; chmod 600 %s", path, from.place,
		quoted(path))
}

// passwordKeys are the parameters of a database's address that hold passwords.
var passwordKeys = []string{"password", "sslpassword"}

// hasPassword reports whether an address holds a password.
func hasPassword(address string) bool { return redacted(address) != address }

// redacted is an address with its passwords replaced.
func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		if strings.Contains(address, "://") && strings.Contains(address, "@") {
			return "xxxxx" // a password that was not escaped, or worse
		}
		return address
	}
	if u.Scheme == "" {
		return address
	}
	hidden := u.Redacted()
	if _, has := u.User.Password(); !has {
		hidden = address
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "xxxxx"
	}
	changed := false
	for _, key := range passwordKeys {
		if query.Has(key) {
			query.Set(key, "xxxxx")
			changed = true
		}
	}
	if changed {
		u.RawQuery = query.Encode()
		hidden = u.Redacted()
	}
	return hidden
}
