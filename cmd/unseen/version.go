package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"unseen/internal/kern"
)

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version and what this build runs on",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			build := readBuild()
			if asJSON {
				return printJSON(cmd.OutOrStdout(), build)
			}
			return build.print(cmd.OutOrStdout())
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// build is what a bug report should say of the program.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"` // empty when the build was not stamped
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
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
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
