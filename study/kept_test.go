package study

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"unseen/progress"
)

// A run that was stopped goes on with the worlds that it lacks, to the same rows; so does one of more seeds. Worlds of
// another program or of other options are refused.
func TestKeptTasks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	options := Options{Seeds: []uint64{1, 2}, Threads: 2, Quick: true, Build: "a", Preset: "safe"}
	rows := func(ctx context.Context, o Options, stopAfter int) (*Result, []string, error) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		var done []string
		o.Progress = func(e progress.Event) {
			if name, ok := strings.CutPrefix(e.Message, "done: "); ok {
				if done = append(done, name); len(done) == stopAfter {
					stop()
				}
			}
		}
		results, err := Run(ctx, []string{"robust"}, o)
		if err != nil {
			return nil, done, err
		}
		return results[0], done, nil
	}
	whole, _, err := rows(t.Context(), options, 0)
	if err != nil {
		t.Fatal(err)
	}
	options.Keep = t.TempDir()
	_, first, err := rows(t.Context(), options, 2)
	if !errors.Is(err, context.Canceled) || len(first) < 2 || len(first) == 4 {
		t.Fatalf("%q, %v", first, err)
	}
	resumed, second, err := rows(t.Context(), options, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(resumed.Rows, whole.Rows) || !reflect.DeepEqual(resumed.Claims, whole.Claims) {
		t.Error("a run that went on has other rows")
	}
	all := slices.Concat(first, second)
	if len(all) != 4 || len(slices.Compact(slices.Sorted(slices.Values(all)))) != 4 {
		t.Errorf("%q were done, and then %q", first, second)
	}
	more := options
	more.Seeds = []uint64{2, 3}
	if r, done, err := rows(t.Context(), more, 0); err != nil || len(done) != 2 || len(r.Rows.([]*RobustRow)) !=
		4*len(robustCases) {
		t.Errorf("with a seed more %q were done: %v", done, err)
	}
	files, err := filepath.Glob(filepath.Join(options.Keep, TaskFolder("robust"), "*.json"))
	if err != nil || len(files) != 6 {
		t.Fatalf("%q, %v", files, err)
	}

	refused := func(what string, o Options, words ...string) {
		_, done, err := rows(t.Context(), o, 0)
		if len(done) > 0 {
			t.Errorf("%s: %q were done", what, done)
		}
		for _, word := range words {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v, without %q", what, err, word)
			}
		}
	}
	other := options
	other.Build = "b"
	refused("another program", other, "another build", "choose another folder", "robust.tasks")
	other = options
	other.Preset = "paper"
	refused("other options", other, "other options")
	raw, err := os.ReadFile(files[0])
	if err == nil {
		err = os.WriteFile(files[0], raw[:len(raw)/2], 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	refused("a file that is cut", options, filepath.Base(files[0]), "remove it")
}

// Rows come back as they were, also those of the studies that take hours.
func TestKeptRows(t *testing.T) {
	t.Parallel()
	l := small(1, 7)
	l.Keep, l.Build = t.TempDir(), "a"
	l.begin(doctor.Name)
	filled := &DoctorRow{Kind: "text", Seed: 7, Dim: 16, Same: .3, Class: "weak", Refuted: []string{"text"},
		Width: 1. / 3, Exposure: doctorMark{Truth: .1, Holds: true}, AUC: .9}
	filled.Risk.Set.Low, filled.Risk.Set.High = .1, .2
	asked := &PrescriptionRow{Kind: "text", Seed: 7, Shown: experimented{Pairs: 3, Z: -1.5}}
	var row DoctorRow
	var pairs PrescriptionRow
	if err := l.keep(task{name: "text, 1% logged/…, seed 7", rows: []any{filled, asked}}); err != nil {
		t.Fatal(err)
	}
	if done, err := l.recall(task{name: "text, 1% logged/…, seed 7", rows: []any{&row, &pairs}}); !done || err != nil {
		t.Fatal(done, err)
	}
	if !reflect.DeepEqual(&row, filled) || !reflect.DeepEqual(&pairs, asked) {
		t.Errorf("%+v and %+v came back", row, pairs)
	}
	if done, err := l.recall(task{name: "text, seed 7", rows: []any{&row}}); done || err != nil {
		t.Error(done, err)
	}
}
