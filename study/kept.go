package study

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"unseen/internal/amount"
	"unseen/internal/atomicfile"
	"unseen/progress"
)

// keptTask is the file of a task that has ended: what was done, by which program, and the rows that it filled.
type keptTask struct {
	Study   string            `json:"study"`
	Task    string            `json:"task"`
	Build   string            `json:"build"`
	Options Options           `json:"options"` // but for the seeds, which are in the names of tasks
	Rows    []json.RawMessage `json:"rows"`
}

// TaskFolder is the name of the folder in which the tasks of a study are kept.
func TaskFolder(study string) string { return study + ".tasks" }

// Kept is how many tasks of all studies are kept in a folder.
func Kept(folder string) int {
	files, _ := filepath.Glob(filepath.Join(folder, TaskFolder("*"), "*.json")) // the pattern is a good one
	return len(files)
}

// kept is what is kept of a task once its rows are filled.
func (l *lab) kept(t task) keptTask {
	o := l.Options
	o.Seeds = nil
	return keptTask{Study: l.study, Task: t.name, Build: l.Build, Options: o}
}

// keptPath is where a task is kept; "" if it is not: a name alone does not say what a network was.
func (l *lab) keptPath(t task) string {
	if l.Keep == "" || len(t.rows) == 0 || len(l.Networks) > 0 || l.Engine != nil {
		return ""
	}
	return filepath.Join(l.Keep, TaskFolder(l.study), notInNames.ReplaceAllString(t.name, "_")+".json")
}

var notInNames = regexp.MustCompile(`[^\pL\pN .,=%+-]+`)

// left returns the tasks that no earlier run has done. The rows of the others are filled.
func (l *lab) left(tasks []task) (left []task, err error) {
	for _, t := range tasks {
		done, err := l.recall(t)
		if err != nil {
			return nil, err
		}
		if !done {
			left = append(left, t)
		}
	}
	if done := len(tasks) - len(left); done > 0 {
		l.Progress.Report(progress.Event{Phase: l.study, Message: fmt.Sprintf("%s were done before, in %s",
			amount.Of(done, "task"), filepath.Join(l.Keep, TaskFolder(l.study)))})
	}
	return left, nil
}

// checkKept refuses folders with tasks of another program before anything runs, by the first of each.
func (l *lab) checkKept(chosen []Study) error {
	for _, s := range chosen {
		files, _ := filepath.Glob(filepath.Join(l.Keep, TaskFolder(s.Name), "*.json"))
		if l.Keep == "" || len(files) == 0 {
			continue
		}
		if _, err := l.read(files[0]); err != nil {
			return err
		}
	}
	return nil
}

// read reads a file of a task of this program.
func (l *lab) read(path string) (was keptTask, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return was, err
	}
	if err == nil {
		err = json.Unmarshal(raw, &was)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w; remove it, and its task runs again", path, err)
	case was.Build != l.Build:
		err = fmt.Errorf("%w: %s is of another build of unseen (%s; this is %s), whose numbers may differ; "+
			"choose another folder, or remove %s", ErrOption, path, was.Build, l.Build, filepath.Dir(path))
	}
	return was, err
}

// recall fills the rows of a task that an earlier run has done, and reports whether there is one.
func (l *lab) recall(t task) (done bool, err error) {
	path := l.keptPath(t)
	if path == "" {
		return false, nil
	}
	was, err := l.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	want := l.kept(t)
	if was.Study != want.Study || was.Task != want.Task || len(was.Rows) != len(t.rows) ||
		!sameJSON(was.Options, want.Options) {
		return false, fmt.Errorf("%w: %s is of a run with other options; choose another folder, or remove %s",
			ErrOption, path, filepath.Dir(path))
	}
	for i, row := range t.rows {
		if err := json.Unmarshal(was.Rows[i], row); err != nil {
			return false, fmt.Errorf("%s: %w; remove it, and its task runs again", path, err)
		}
	}
	return true, nil
}

// keep writes the rows of a task that has ended.
func (l *lab) keep(t task) error {
	path := l.keptPath(t)
	if path == "" {
		return nil
	}
	is := l.kept(t)
	for _, row := range t.rows {
		raw, err := json.Marshal(row)
		if err != nil {
			return fmt.Errorf("a row has no JSON form: %w", err)
		}
		is.Rows = append(is.Rows, raw)
	}
	raw, err := json.Marshal(is)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, append(raw, '\n'))
}

// sameJSON reports whether two values have the same JSON form.
func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
