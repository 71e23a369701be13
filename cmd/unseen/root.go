package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "unseen",
		Short: "Link recommendation that corrects for exposure",
		Long: `Link recommendation (citations, friends, pages, packages) that corrects for
exposure: a missing link may mean "irrelevant" or "never shown". Most
recommenders train and test only on links that exist, so what was never shown
looks irrelevant. unseen learns what is relevant and what was shown.

Every flag can also be set by the environment or in a file that --config names:
UNSEEN_SERVE_KEEP=3, or keep = 3 under [serve], is --keep 3 of unseen serve. The
flag counts before the environment, and the environment before the file.

New here? Start with:  unseen demo`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(cmd, args[0])
		},
		Version: readBuild().Version,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if printsConfig(cmd) {
				return usagef("name a command: unseen serve --print-config")
			}
			return cmd.Help()
		},
		PersistentPreRunE: checkThreads,
		SilenceErrors:     true,
		SilenceUsage:      true,
		// Our own completion command has errors of one line.
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(usage)
	root.SetVersionTemplate("unseen {{.Version}}\n")
	root.SetHelpCommand(newHelp())
	root.AddCommand(newDemo(), newImport(), newExport(), newCheck(), newEncode(), newIndex(), newFit(), newEvaluate(),
		newRecommend(), newBridges(), newDial(),
		newGenerate(), newLoop(), newStudy(), newReport(), newServe(), newVersion(), newCompletion(), newMan())
	configurable(root)
	return root
}

// usage is cobra's template without its second usage line for a command that has commands.
const usage = `Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}{{with index .Annotations "also"}}
  {{.}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{if .HasAvailableInheritedFlags}}

Flags of every command:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

Exit code: 0 done, 1 failed, 2 wrong command line.
"{{if .HasParent}}{{.CommandPath}} COMMAND --help{{else}}{{.CommandPath}} help COMMAND{{end}}" ` +
	`explains one command.{{end}}
`

// newHelp replaces cobra's help command, which takes an unknown topic for a success.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return unknownCommand(topic, rest[0])
			}
			topic.InitDefaultHelpFlag()
			return topic.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion,
			cobra.ShellCompDirective) {
			var names []cobra.Completion
			for _, c := range cmd.Root().Commands() {
				if len(args) == 0 && c.IsAvailableCommand() && strings.HasPrefix(c.Name(), typed) {
					names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// noArgs is cobra.NoArgs with an error that says what to do.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, got %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return nil
}

func unknownCommand(parent *cobra.Command, name string) error {
	if near := parent.SuggestionsFor(name); len(near) > 0 {
		return usagef("unknown command %q; did you mean %s?", name, strings.Join(near, " or "))
	}
	return usagef("unknown command %q; see %s --help", name, parent.CommandPath())
}

// flagError says what is wrong with a flag in the user's words rather than the parser's.
func flagError(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if e.GetSpecifiedShortnames() != "" {
			return usagef("unknown flag -%s; see %s --help", e.GetSpecifiedShortnames(), cmd.CommandPath())
		}
		if near := nearestFlag(cmd, e.GetSpecifiedName()); near != "" {
			return usagef("unknown flag --%s; did you mean --%s?", e.GetSpecifiedName(), near)
		}
		return usagef("unknown flag --%s; see %s --help", e.GetSpecifiedName(), cmd.CommandPath())
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usagef("--%s needs a value; see %s --help", e.GetFlag().Name, cmd.CommandPath())
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usagef("--%s %s", e.GetFlag().Name, badValue(e.GetFlag(), e.GetValue(), err))
	}
	return usagef("%w; see %s --help", err, cmd.CommandPath())
}

// badValue says what is wrong with the value of a flag, and what to give.
func badValue(f *pflag.Flag, value string, err error) string {
	kind := wanted(f)
	if errors.Is(err, strconv.ErrRange) {
		kind = "a number nearer to 0"
	}
	return fmt.Sprintf("is %q; give %s", value, kind)
}

// wanted is what a flag takes.
func wanted(f *pflag.Flag) string {
	kind := map[string]string{
		"int":          "a whole number",
		"int64":        "a whole number",
		"uint64":       "a whole number, 0 or more",
		"float64":      "a number",
		"float64Slice": "numbers with commas between them",
		"bool":         "true or false",
		"stringArray":  "texts",
		"stringSlice":  "texts",
		"duration":     "a time such as 24h or 90s",
		"time":         "a time such as 90d or 36h",
	}[f.Value.Type()]
	return cmp.Or(kind, "text")
}

// nearestFlag returns the flag that fewest edits away from the name, at most two, or "".
func nearestFlag(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return nearest(name, names)
}

// nearest is the name that was probably meant, or "": at most two letters are other ones, not all of them, and no other
// name is as near.
func nearest(name string, names []string) string {
	near, least := "", min(3, len(name))
	for _, known := range names {
		switch d := edits(name, known); {
		case d < least:
			near, least = known, d
		case d == least:
			near = ""
		}
	}
	return near
}

// edits is Levenshtein's distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// oldFlag keeps a flag's old name for one version: hidden, and with one note on stderr.
func oldFlag(cmd *cobra.Command, old, name string) {
	f := *cmd.Flags().Lookup(name)
	f.Name, f.Shorthand, f.Hidden, f.Value = old, "", true, &oldValue{f.Value, sync.OnceFunc(func() {
		fmt.Fprintf(cmd.ErrOrStderr(), "unseen: --%s is deprecated; use --%s\n", old, name)
	})}
	cmd.Flags().AddFlag(&f)
}

// oldValue is a flag's value under its old name. Cobra's own note would go to stdout, among the results.
type oldValue struct {
	pflag.Value
	note func()
}

// Set notes that the name is old.
func (v *oldValue) Set(text string) error {
	v.note()
	return v.Value.Set(text)
}

// threadsFlag adds --threads, which checkThreads checks before a command runs.
func threadsFlag(cmd *cobra.Command, threads *int) {
	cmd.Flags().IntVar(threads, "threads", 0, "threads (default: all processors)")
}

// checkThreads lets 0 threads mean all processors, for every command that has --threads.
func checkThreads(cmd *cobra.Command, _ []string) error {
	flag := cmd.Flags().Lookup("threads")
	if flag == nil {
		return nil
	}
	switch n, err := strconv.Atoi(flag.Value.String()); {
	case err != nil || n < 0:
		return usagef("--threads is %s; give at least 1, or leave it out", flag.Value)
	case n == 0:
		return flag.Value.Set(strconv.Itoa(runtime.GOMAXPROCS(0)))
	}
	return nil
}

// jsonFlag adds --json, which every command that prints results has.
func jsonFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print one JSON document instead of text")
}

// present prints results: as JSON, or as text by a function of theirs.
func present(cmd *cobra.Command, asJSON bool, results any, print func(io.Writer) error) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), results)
	}
	return print(cmd.OutOrStdout())
}

func printJSON(w io.Writer, document any) error {
	raw, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot write the results as JSON: %w", err)
	}
	_, err = w.Write(append(raw, '\n'))
	return err
}

// completeFlags sets what the Tab key offers for values of flags: words to choose from, or nothing for the flags that
// take numbers and other texts. Flags that are not named take files.
func completeFlags(cmd *cobra.Command, words map[string][]string, others ...string) {
	for _, name := range slices.AppendSeq(others, maps.Keys(words)) {
		if err := cmd.RegisterFlagCompletionFunc(name,
			cobra.FixedCompletions(words[name], cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // only if the flag does not exist
		}
	}
}
