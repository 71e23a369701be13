package main

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"unseen/dataset"
	"unseen/hint"
)

// settingFlag is the flag by which commands take a setting.
type settingFlag struct {
	flag     string
	commands string // that have it, with commas between them; the first is named where another one failed
}

const (
	tableImports = "import parquet,import csv,import jsonl"
	workImports  = "import openalex,import mag,import semantic-scholar"
	interactions = "import interactions"
	imports      = tableImports + "," + workImports + ",import edges,import npz," + interactions
)

// settingFlags are the flags of the settings that hints of libraries speak of.
var settingFlags = map[hint.Setting]settingFlag{
	"anchors":        {"anchor", "fit"},
	"cert":           {"tls-cert", "serve"},
	"clicked":        {"clicked", interactions},
	"clicks":         {"clicks", interactions},
	"count":          {"count", interactions + "," + tableImports},
	"dim":            {"dim", "fit"},
	"doctor":         {"doctor", "fit"},
	"exposed":        {"exposed", interactions + "," + tableImports},
	"exposure":       {"exposure", "fit"},
	"exposureSource": {"exposure-source", tableImports},
	"exposureTarget": {"exposure-target", tableImports},
	"exposureTime":   {"exposure-time", tableImports},
	"field":          {"field", tableImports + "," + workImports},
	"fieldsBy":       {"fields-by", "fit"},
	"force":          {"force", imports + ",export"},
	"fromYear":       {"from-year", workImports},
	"id":             {"id", tableImports},
	"impressionItem": {"impression-item", interactions},
	"impressionTime": {"impression-time", interactions},
	"impressionUser": {"impression-user", interactions},
	"item":           {"item", interactions},
	"itemField":      {"item-field", interactions},
	"itemId":         {"item-id", interactions},
	"itemText":       {"item-text", interactions},
	"itemTime":       {"item-time", interactions},
	"itemTitle":      {"item-title", interactions},
	"keepEvents":     {"keep-events", "serve"},
	"keepOutside":    {"keep-outside", workImports},
	"keepParatext":   {"keep-paratext", "import openalex"},
	"keepRetracted":  {"keep-retracted", "import openalex"},
	"key":            {"tls-key", "serve"},
	"lenient":        {"lenient", imports},
	"link":           {"link", "fit"},
	"linkTime":       {"link-time", tableImports},
	"linked":         {"linked", tableImports},
	"log":            {"log", "fit," + interactions + "," + tableImports + ",import npz"},
	"method":         {"method", "fit"},
	"model":          {"model", "serve"},
	"naive":          {"naive", "serve,recommend,bridges"},
	"negativeScheme": {"negative-scheme", "fit"},
	"nodes":          {"nodes", "fit"},
	"noHeader":       {"no-header", "import csv," + interactions},
	"nodesFromLinks": {"nodes-from-links", imports},
	"open":           {"open", "serve"},
	"optimiser":      {"optimiser", "fit"},
	"origins":        {"cors-origin", "serve"},
	"perLink":        {"negatives", "fit"},
	"position":       {"position", interactions + "," + tableImports},
	"probability":    {"probability", interactions},
	"propensity":     {"propensity", "fit"},
	"rating":         {"rating", interactions},
	"replicates":     {"replicates", "fit"},
	"role":           {"role", tableImports},
	"rowNumbers":     {"row-numbers", "check,encode"},
	"shown":          {"shown", tableImports},
	"source":         {"source", tableImports},
	"split":          {"split", "fit"},
	"surface":        {"surface", interactions + "," + tableImports},
	"target":         {"target", tableImports},
	"testFrom":       {"test-from", "fit"},
	"text":           {"text", tableImports},
	"threshold":      {"threshold", interactions},
	"time":           {"time", tableImports + "," + interactions},
	"title":          {"title", tableImports},
	"toYear":         {"to-year", workImports},
	"tokens":         {"token-file", "serve"},
	"user":           {"user", interactions},
	"userField":      {"user-field", interactions},
	"userId":         {"user-id", interactions},
	"userPrefix":     {"user-prefix", interactions},
	"userText":       {"user-text", interactions},
	"userTime":       {"user-time", interactions},
	"userTitle":      {"user-title", interactions},
	"validationFrom": {"validation-from", "fit"},
	"violations":     {"violate", "fit"},
}

// render is an error in the words of the command that failed: settings by their flags, and the command line that helps.
func render(failed *cobra.Command, err error) string {
	other := "" // command that has a flag which the failed one has not
	text := hint.Render(err, func(s hint.Setting) string {
		if of, known := settingFlags[s]; known {
			commands := strings.Split(of.commands, ",")
			if !slices.Contains(commands, strings.TrimPrefix(failed.CommandPath(), failed.Root().Name()+" ")) {
				other = commands[0]
			}
		}
		return flagName(s)
	})
	if line := commandFor(err); line != "" {
		return text + ": " + line
	}
	if other != "" {
		return text + " (unseen " + other + ")"
	}
	return text
}

// flagName is a setting as its flag.
func flagName(s hint.Setting) string {
	if of, known := settingFlags[s]; known {
		return "--" + of.flag
	}
	return string(s)
}

// commandFor is the command line that does what an error's hint asks for, or "".
func commandFor(err error) string {
	e, about := errors.AsType[*dataset.Error](err)
	switch {
	case about && errors.Is(err, dataset.ErrAmbiguous):
		return "unseen check " + quoted(filepath.Dir(e.Path)) + " --row-numbers --seal"
	}
	return ""
}

// fixes are the command lines that do what the fixes of findings ask for, by the finding's kind; DIR is the dataset.
var fixes = map[string]string{
	"no-manifest": "unseen check DIR --seal",
	"no-fields":   "unseen fit DIR --fields-by vectors:20",
	"one-field":   "unseen fit DIR --fields-by vectors:20",
	"no-vectors":  "unseen encode DIR",
	"no-text":     "unseen encode DIR",
	"shown-only":  "unseen fit DIR --log complete",
	"wide":        "unseen encode DIR --encoder features --dim 128 --force",
}

// withCommand adds the command line that fixes a finding about a dataset.
func withCommand(f dataset.Finding, dir string) dataset.Finding {
	if line := fixFor(f.Kind, dir); line != "" {
		f.Fix += ": " + line
	}
	return f
}

// fixFor is the command line that fixes what a kind of finding is about, or "".
func fixFor(kind, dir string) string { return strings.Replace(fixes[kind], "DIR", quoted(dir), 1) }

// quoted is a path as a shell takes it.
func quoted(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:@%+,=~", r)
	}) || path == "" {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}
