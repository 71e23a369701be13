package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every flag of every command can also be set by a variable of the environment, or by a file:
//
//	unseen serve DIR --keep 3
//	UNSEEN_SERVE_KEEP=3 unseen serve DIR
//	unseen serve DIR --config unseen.toml    # which has keep = 3 under [serve]
//
// The flag counts before the variable, the variable before the file, the file before the default. The file is read only
// if it is named, so that a folder of somebody else's changes nothing.

// configurable gives every command below the root the flags --config and --print-config.
func configurable(root *cobra.Command) {
	root.PersistentFlags().String("config", "", "TOML `file` with flags (default: what UNSEEN_CONFIG names)")
	root.PersistentFlags().Bool("print-config", false, "print the values of all flags and where they come from")
	for _, cmd := range commandsBelow(root) {
		checkArgs, run := cmd.Args, cmd.RunE
		if checkArgs == nil {
			checkArgs = cobra.ArbitraryArgs
		}
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := configure(cmd); err != nil || printsConfig(cmd) {
				return err
			}
			return withOrigin(cmd, checkArgs(cmd, args))
		}
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if printsConfig(cmd) {
				return printConfig(cmd.OutOrStdout(), cmd)
			}
			return withOrigin(cmd, run(cmd, args))
		}
	}
}

// commandsBelow returns the commands that do something.
func commandsBelow(root *cobra.Command) (all []*cobra.Command) {
	for _, below := range root.Commands() {
		if below.RunE != nil && below.Name() != "help" {
			all = append(all, below)
		}
		all = append(all, commandsBelow(below)...)
	}
	return all
}

func printsConfig(cmd *cobra.Command) bool { return cmd.Flag("print-config").Value.String() == "true" }

// The annotations of a flag.
const (
	originNote  = "origin"  // where its value comes from
	secretNote  = "secret"  // the value may hold a password; the flag that names a file with it
	privateNote = "private" // the value is a file that only its owner may read
)

// Where a value comes from, the strongest first.
const (
	fromFlag = iota
	fromEnvironment
	fromFile
	fromDefault
)

// origin is where the value of a flag comes from.
type origin struct {
	rank  int
	place string // a flag, a variable, or the line of a file
}

func originOf(f *pflag.Flag) origin {
	if note := f.Annotations[originNote]; note != nil {
		rank, _ := strconv.Atoi(note[0])
		return origin{rank, note[1]}
	}
	if f.Changed {
		return origin{fromFlag, "--" + f.Name}
	}
	return origin{fromDefault, "default"}
}

func noteOrigin(f *pflag.Flag, o origin) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[originNote] = []string{strconv.Itoa(o.rank), o.place}
}

// settable returns the flags of a command that a file or a variable can set.
func settable(cmd *cobra.Command) (flags []*pflag.Flag) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" && f.Name != "config" && f.Name != "print-config" {
			flags = append(flags, f)
		}
	})
	return flags
}

// variable is the name of the variable that sets a flag: UNSEEN_SERVE_TOKEN_FILE sets --token-file of unseen serve.
func variable(cmd *cobra.Command, flag string) string {
	return strings.ToUpper(strings.NewReplacer(" ", "_", "-", "_").Replace(cmd.CommandPath() + " " + flag))
}

// configure sets the flags that the command line leaves out.
func configure(cmd *cobra.Command) error {
	flags := settable(cmd)
	given := map[pflag.Value]bool{} // also those under an old name
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if old, ok := f.Value.(*oldValue); ok && f.Changed {
			given[old.Value] = true
		}
		given[f.Value] = given[f.Value] || f.Changed
	})
	for _, f := range flags {
		name := variable(cmd, f.Name)
		if text := os.Getenv(name); text != "" && !given[f.Value] {
			if err := cmd.Flags().Set(f.Name, text); err != nil {
				return usagef("%s %s", name, badValue(f, text, err))
			}
			noteOrigin(f, origin{fromEnvironment, name})
			given[f.Value] = true
		}
	}
	if err := misspelt(cmd); err != nil {
		return err
	}
	if path := cmp.Or(cmd.Flag("config").Value.String(), os.Getenv("UNSEEN_CONFIG")); path != "" {
		file, err := readConfig(path)
		if err != nil {
			return err
		}
		if err := file.apply(cmd, given); err != nil {
			return err
		}
	}
	return readSecrets(cmd, flags)
}

// misspelt finds a variable that is probably meant for the command and sets nothing.
func misspelt(cmd *cobra.Command) error {
	known := sync.OnceValue(func() (names []string) {
		for _, other := range commandsBelow(cmd.Root()) {
			for _, f := range settable(other) {
				names = append(names, variable(other, f.Name))
			}
		}
		return names
	})
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, variable(cmd, "")) && !slices.Contains(known(), name) {
			if near := nearest(name, known()); near != "" {
				return usagef("the environment has %s, which sets nothing; did you mean %s?", name, near)
			}
		}
	}
	return nil
}

// configFile is a file of flags.
type configFile struct {
	path   string
	mode   os.FileMode
	values map[string]any
	lines  map[string]int // of the keys, which are joined by dots
}

const maxConfig = 1 << 20

func readConfig(path string) (*configFile, error) {
	raw, mode, err := readLimited(path, maxConfig)
	if err != nil {
		return nil, err
	}
	c := &configFile{path: path, mode: mode, lines: map[string]int{}}
	if err := toml.Unmarshal(raw, &c.values); err != nil {
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column := at.Position()
			return nil, usagef("%s:%d:%d: %s; the file is not TOML there", path, line, column,
				strings.TrimPrefix(err.Error(), "toml: "))
		}
		return nil, usagef("%s: %w; the file is not TOML", path, err)
	}
	var p unstable.Parser
	p.Reset(raw)
	table := ""
	for p.NextExpression() {
		e, key, line := p.Expression(), []string{}, 0
		for it := e.Key(); it.Next(); {
			if line == 0 {
				line = p.Shape(it.Node().Raw).Start.Line
			}
			key = append(key, string(it.Node().Data))
		}
		name := strings.Join(key, ".")
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = name
		case unstable.KeyValue:
			name = strings.TrimPrefix(table+"."+name, ".")
		}
		if c.lines[name] == 0 {
			c.lines[name] = line
		}
	}
	return c, nil
}

// readLimited reads a small file.
func readLimited(path string, most int64) ([]byte, os.FileMode, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	raw, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("%s has more than %d bytes; give a file of settings", path, most)
	}
	return raw, info.Mode(), err
}

// at is the place of a key in the file. A key of an inline table stands where the table does.
func (c *configFile) at(key string) string {
	for {
		if line := c.lines[key]; line > 0 {
			return fmt.Sprintf("%s:%d", c.path, line)
		}
		dot := strings.LastIndex(key, ".")
		if dot < 0 {
			return c.path
		}
		key = key[:dot]
	}
}

// apply checks the whole file and sets the flags of a command that are not given.
func (c *configFile) apply(cmd *cobra.Command, given map[pflag.Value]bool) error {
	use := func(of *cobra.Command, f *pflag.Flag, key string, texts []string) error {
		if f.Annotations[secretNote] != nil && slices.ContainsFunc(texts, hasPassword) && readableByAll(c.mode) {
			return usagef("%s: %s has a password, and everybody can read the file; chmod 600 %s", c.at(key), f.Name,
				quoted(c.path))
		}
		if of != cmd || given[f.Value] {
			return nil
		}
		if err := setTexts(cmd, f, texts); err != nil {
			return usagef("%s: %s %s", c.at(key), f.Name, badValue(f, strings.Join(texts, ","), err))
		}
		noteOrigin(f, origin{fromFile, c.at(key)})
		return nil
	}
	return c.applyTable(cmd.Root(), "", c.values, use)
}

// applyTable calls use for every flag in the table of a command and in those of the commands below it.
func (c *configFile) applyTable(cmd *cobra.Command, prefix string, table map[string]any,
	use func(cmd *cobra.Command, f *pflag.Flag, key string, texts []string) error) error {
	flags, names := map[string]*pflag.Flag{}, []string{}
	if cmd.HasParent() {
		for _, f := range settable(cmd) {
			flags[f.Name] = f
			names = append(names, f.Name)
		}
	}
	below := map[string]*cobra.Command{}
	for _, child := range cmd.Commands() {
		if child.Name() != "help" {
			below[child.Name()] = child
			names = append(names, child.Name())
		}
	}
	// The first wrong line is the one to report.
	keys := slices.SortedFunc(maps.Keys(table), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.lines[prefix+a], c.lines[prefix+b]), cmp.Compare(a, b))
	})
	for _, name := range keys {
		key, value := prefix+name, table[name]
		inner, isTable := value.(map[string]any)
		switch child, f := below[name], flags[name]; {
		case child != nil && isTable:
			if err := c.applyTable(child, key+".", inner, use); err != nil {
				return err
			}
		case child != nil:
			return usagef("%s: %s is a command; write its flags under [%s]", c.at(key), name, key)
		case f == nil:
			return usagef("%s: %s", c.at(key), unknownKey(cmd, name, names))
		default:
			texts, ok := flagTexts(value, f.Value.Type())
			if !ok {
				return usagef("%s: %s is %s; give %s", c.at(key), name, shortened(value), wanted(f))
			}
			if err := use(cmd, f, key, texts); err != nil {
				return err
			}
		}
	}
	return nil
}

func unknownKey(cmd *cobra.Command, name string, names []string) string {
	what := "flag of " + cmd.CommandPath()
	if !cmd.HasParent() {
		what = "command"
	}
	if near := nearest(name, names); near != "" {
		return fmt.Sprintf("%q is no %s; did you mean %s?", name, what, near)
	}
	return fmt.Sprintf("%q is no %s; see %s --help", name, what, cmd.CommandPath())
}

// shortened is a value of the file in an error.
func shortened(value any) string {
	if text, ok := value.(string); ok {
		value = strconv.Quote(text)
	}
	if text := []rune(fmt.Sprint(value)); len(text) > 60 {
		return string(text[:60]) + "…"
	} else {
		return string(text)
	}
}

// flagTexts returns a value of the file as the command line would have it, if it has the type of the flag.
func flagTexts(value any, flagType string) ([]string, bool) {
	if list, ok := value.([]any); ok {
		element := map[string]string{
			"stringSlice": "string", "stringArray": "string", "float64Slice": "float64"}[flagType]
		texts := []string{}
		for _, one := range list {
			text, ok := flagTexts(one, element)
			if !ok || element == "" {
				return nil, false
			}
			texts = append(texts, text...)
		}
		return texts, true
	}
	switch v := value.(type) {
	case bool:
		return []string{strconv.FormatBool(v)}, flagType == "bool"
	case int64:
		return []string{strconv.FormatInt(v, 10)}, strings.HasPrefix(flagType, "int") ||
			strings.HasPrefix(flagType, "uint") || strings.HasPrefix(flagType, "float64")
	case float64:
		return []string{strconv.FormatFloat(v, 'g', -1, 64)}, strings.HasPrefix(flagType, "float64")
	case string:
		return []string{v}, !slices.ContainsFunc([]string{"bool", "int", "uint", "float64"}, func(kind string) bool {
			return strings.HasPrefix(flagType, kind)
		})
	}
	return nil, false
}

// setTexts sets a flag as if it had been given once for each text.
func setTexts(cmd *cobra.Command, f *pflag.Flag, texts []string) error {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		f.Changed = true
		return list.Replace(texts)
	}
	return cmd.Flags().Set(f.Name, texts[0])
}

// withOrigin adds to an error about a flag where its value comes from, if that is not the command line.
func withOrigin(cmd *cobra.Command, err error) error {
	if _, ok := errors.AsType[*usageError](err); !ok {
		return err
	}
	words := strings.FieldsFunc(err.Error(), func(r rune) bool { return strings.ContainsRune(" ,;:", r) })
	for _, f := range settable(cmd) {
		if o := originOf(f); (o.rank == fromEnvironment || o.rank == fromFile) &&
			slices.Contains(words, "--"+f.Name) {
			return usagef("%w (%s sets --%s)", err, o.place, f.Name)
		}
	}
	return err
}

// printConfig prints the flags of a command as a file that sets them. Defaults and what holds a password are comments.
func printConfig(w io.Writer, cmd *cobra.Command) error {
	table := strings.ReplaceAll(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "), " ", ".")
	var page strings.Builder
	fmt.Fprintf(&page, "[%s]\n", table)
	for _, f := range settable(cmd) {
		from := originOf(f)
		value, err := tomlValue(f)
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s = %s # %s", f.Name, value, from.place)
		hidden := f.Annotations[secretNote] != nil && hasPassword(f.Value.String())
		if hidden {
			line += ", password hidden"
		}
		if hidden || from.rank == fromDefault || fromSecretFile(cmd, f) {
			line = "# " + line
		}
		page.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, page.String())
	return err
}

// tomlValue is the value of a flag as TOML.
func tomlValue(f *pflag.Flag) (string, error) {
	text, kind := f.Value.String(), f.Value.Type()
	list, isList := f.Value.(pflag.SliceValue)
	var value any = text
	switch {
	case isList && kind == "float64Slice":
		return "[" + strings.Join(list.GetSlice(), ", ") + "]", nil
	case isList:
		value = list.GetSlice()
	case kind == "bool", strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		return text, nil
	case kind == "float64":
		if !strings.ContainsAny(text, ".eEIN") {
			text += ".0"
		}
		return strings.NewReplacer("Inf", "inf", "NaN", "nan").Replace(text), nil
	case f.Annotations[secretNote] != nil:
		value = redacted(text)
	}
	raw, err := toml.Marshal(map[string]any{"x": value})
	return strings.TrimSpace(strings.TrimPrefix(string(raw), "x = ")), err
}
