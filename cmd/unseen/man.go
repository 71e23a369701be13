package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan is hidden: packages use it, people use help.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write a manual page for every command",
		Hidden: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name the folder to write to; for instance unseen man /usr/local/share/man/man1")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return usagef("cannot create the folder: %w; give another", err)
			}
			b := readBuild()
			header := &doc.GenManHeader{Section: "1", Source: "unseen " + b.Version,
				Manual: "Link recommendation that corrects for exposure"}
			if when, err := time.Parse(time.RFC3339, b.Time); err == nil { // otherwise SOURCE_DATE_EPOCH, or now
				header.Date = &when
			}
			root := newRoot()
			forPages(root)
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if err := setManual(args[0], header.Date); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return nil
		},
	}
}

var (
	manDate   = regexp.MustCompile(`(?m)^(\.TH "[^"]*" "1" )"[^"]*"`)
	manOption = regexp.MustCompile(`(?m)^(?:\.PP\n)?(\\fB-.*)\n\t(.*)$`)
)

// setManual mends what the generator leaves: options become tagged paragraphs, so that what they
// mean stands indented below them instead of behind a tab, and the date names its day.
func setManual(folder string, when *time.Time) error {
	pages, err := filepath.Glob(filepath.Join(folder, "unseen*.1"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		raw, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		raw = manOption.ReplaceAll(raw, []byte(".TP\n$1\n$2"))
		if when != nil {
			raw = manDate.ReplaceAll(raw, []byte(`${1}"`+when.Format(time.DateOnly)+`"`))
		}
		if err := os.WriteFile(page, raw, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// forPages readies the texts of a command and those below it for a renderer of Markdown: what is
// indented stays as it is.
func forPages(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true // it would name the day
	cmd.Long = literal(cmd.Long)
	for _, c := range cmd.Commands() {
		forPages(c)
	}
}

// literal makes paragraphs with an indented line blocks that Markdown leaves alone, and escapes its
// marks in the others.
func literal(text string) string {
	var out []string
	for paragraph := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		if strings.Contains("\n"+paragraph, "\n  ") {
			head, rest := "", paragraph
			if first, below, ok := strings.Cut(paragraph, "\n"); ok && !strings.HasPrefix(first, "  ") &&
				strings.HasSuffix(first, ":") {
				head, rest = escapeMarkdown(first)+"\n\n", below
			}
			out = append(out, head+"    "+strings.ReplaceAll(rest, "\n", "\n    "))
			continue
		}
		out = append(out, escapeMarkdown(paragraph))
	}
	return strings.Join(out, "\n\n")
}

var escapeMarkdown = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "`", "\\`").Replace
