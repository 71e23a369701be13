package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"unseen/internal/atomicfile"
	"unseen/serve/store"
)

// ErrStateInUse: another service has the state folder.
var ErrStateInUse = errors.New("state folder is in use")

// The files of a state folder, as patterns. Other files in it, such as the dataset's, are not the service's.
var (
	stateFolders = []string{"models", "catalogue"}
	stateFiles   = []string{"unseen.lock", "events.db", "events.db-*", "events.db.*", "events.spool", "audit.log",
		"audit.log.*", "jobs.json", "jobs.json.*", "watch.json", "watch.json.*", "forgotten.json",
		"catalogue.log", "waiting.log", "models/*",
		"catalogue/*", "catalogue/*/*"}
)

// stateVersion is the version of registry.json, jobs.json, watch.json and forgotten.json. Those of version 1 do not
// name it. The event log and the spool have versions of their own.
const stateVersion = 2

// readState reads a file of the state, which may not exist. One of a later version is refused; of one of an earlier
// version a copy is made, because the next save writes the file as this version does.
func readState(path string) (raw []byte, version int, err error) {
	raw, err = os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	var named struct{ Version int }
	if err := json.Unmarshal(raw, &named); err != nil && !bytes.HasPrefix(raw, []byte("[")) {
		return raw, stateVersion, nil // damaged, as its reader will find
	}
	version = max(named.Version, 1)
	switch {
	case version > stateVersion:
		return nil, 0, fmt.Errorf("%s: %w: its version is %d, this program reads %d; upgrade, or put %s back, if the "+
			"upgrade has left it", path, store.ErrNewer, version, stateVersion,
			filepath.Base(copyPath(path, stateVersion)))
	case version < stateVersion:
		err := atomicfile.WritePrivate(copyPath(path, version),
			func(w io.Writer) error { _, err := w.Write(raw); return err })
		if err != nil {
			return nil, 0, fmt.Errorf("copying %s before its migration to version %d: %w", path, stateVersion, err)
		}
	}
	return raw, version, nil
}

// copyPath is where a file of the state stays as it was in a version.
func copyPath(path string, version int) string {
	return fmt.Sprintf("%s.v%d", path, version)
}

// claimState makes the state folder this service's alone until release, or until the process is gone: two services
// would overwrite each other's models and jobs. Only the owner may read what is in it. Links are refused, because who
// makes one could have the service write elsewhere; the folder itself may be reached through one.
func claimState(folder string, log *slog.Logger) (release func() error, err error) {
	paths := []string{}
	for _, pattern := range slices.Concat(stateFolders, stateFiles) {
		found := []string{pattern} // also a link to nothing
		if strings.Contains(pattern, "*") {
			if found, err = fs.Glob(os.DirFS(folder), pattern); err != nil {
				return nil, err
			}
		}
		for _, name := range found {
			paths = append(paths, filepath.Join(folder, filepath.FromSlash(name)))
		}
	}
	for _, path := range paths {
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case !info.IsDir() && !info.Mode().IsRegular():
			return nil, fmt.Errorf("%s is a link or no file; move it away: the service follows none in its "+
				"state folder",
				path)
		}
	}
	release, err = atomicfile.Claim(filepath.Join(folder, "unseen.lock"))
	if held, ok := errors.AsType[*atomicfile.HeldError](err); ok {
		return nil, fmt.Errorf("%w: %v; stop that service, or give this one a state folder of its own", ErrStateInUse,
			held)
	}
	if err != nil {
		return nil, err
	}
	for _, path := range append(paths, folder) {
		if err := makeOwn(path); err != nil {
			log.Warn("others may read a file of the state", "error", err)
		}
	}
	return release, nil
}

// makeOwn takes the permissions of everybody but the owner away.
func makeOwn(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Mode()&0o077 == 0 || info.Mode()&fs.ModeSymlink != 0 {
		return err
	}
	if info.IsDir() {
		return os.Chmod(path, info.Mode().Perm()&0o700)
	}
	return os.Chmod(path, info.Mode().Perm()&0o600)
}
