package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"unseen/internal/atomicfile"
	"unseen/internal/kern"
	"unseen/internal/sbom"
	"unseen/serve"
)

func newVersion() *cobra.Command {
	var asJSON, bill bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version and what this build runs on",
		Long: `Print the version and what this build runs on.

With --sbom, print the modules in this binary, with their versions and
checksums, as a CycloneDX document for scanners.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			build := readBuild()
			switch {
			case bill:
				info, ok := debug.ReadBuildInfo()
				if !ok {
					return errors.New("this binary has no list of its modules; build it with go build in " +
						"module mode")
				}
				scripts, err := sbom.Scripts(serve.Scripts())
				if err != nil {
					return err
				}
				return printJSON(cmd.OutOrStdout(),
					sbom.Of(info, sbom.Program{Name: "unseen", Version: build.Version, Commit: build.Commit,
						Time: build.Time, Scripts: scripts}))
			case asJSON:
				return printJSON(cmd.OutOrStdout(), build)
			}
			return build.print(cmd.OutOrStdout())
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&bill, "sbom", false, "print the modules in this binary as CycloneDX JSON")
	return cmd
}

// A release is built from sources that may have no version control around them, so its stamps come
// with the linker's -X.
var stampVersion, stampCommit, stampTime, stampModified string

// build is what a bug report should say of the program.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"` // empty when the build was not stamped
	Time     string `json:"time,omitempty"`   // of the commit
	Modified bool   `json:"modified"`         // the working tree differed from the commit
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Kernels  string `json:"kernels"` // the vector kernels in use
}

func readBuild() build {
	b := build{
		Version: "(devel)",
		Go:      runtime.Version(),
		OS:      runtime.GOOS,
		Arch:    runtime.GOARCH,
		Kernels: kern.Variant(),
	}
	if stampVersion != "" {
		b.Version, b.Commit, b.Time, b.Modified = stampVersion, stampCommit, stampTime, stampModified == "true"
		return b
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// identity tells builds apart that may give other numbers: by the commit, or by the program itself where that does not
// say all.
func (b build) identity() (string, error) {
	if b.Commit != "" && !b.Modified {
		return b.Commit, nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	return atomicfile.Sum(path)
}

func (b build) print(w io.Writer) error {
	commit := b.Commit
	switch {
	case commit == "":
		commit = "not recorded in this build"
	case b.Modified:
		commit += ", modified"
	}
	_, err := fmt.Fprintf(w, "unseen %s\ncommit   %s\ngo       %s\nplatform %s/%s\nkernels  %s\n",
		b.Version, commit, b.Go, b.OS, b.Arch, b.Kernels)
	return err
}
