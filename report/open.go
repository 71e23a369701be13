package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"unseen/evaluate"
	"unseen/internal/atomicfile"
	"unseen/model"
	"unseen/recommend"
	"unseen/study"
)

// Open makes a page of runs: files and folders that this program wrote. A run is the JSON file of a study or of
// several, an evaluation, a dial, a model file, a page that [Page.WriteJSON] wrote, or a folder of these. Errors name
// the file and what to do.
func Open(title string, runs ...string) (*Page, error) {
	page := &Page{Title: title}
	var files []Fact
	var titles []string
	for _, run := range runs {
		paths, err := filesOf(run)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			read, err := openFile(path)
			if err != nil {
				return nil, err
			}
			page.Sections = append(page.Sections, read.Sections...)
			page.Summary = append(page.Summary, read.Summary...)
			titles = append(titles, read.Title)
			sum, err := atomicfile.Sum(path)
			if err != nil {
				return nil, unreadable(path, err)
			}
			files = append(files, Fact{filepath.Base(path), "SHA-256 " + sum})
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w: none was given; name a file or folder", ErrRun)
	}
	if page.Title == "" && len(titles) == 1 {
		page.Title = titles[0]
	}
	if page.Title == "" {
		page.Title = "What unseen found"
	}
	page.Add(Section{Name: "files", Title: "Files",
		Text: []string{"The files that this report was made from. The same files give the same report, byte for " +
			"byte."},
		FactsTitle: "Checksums", Facts: files})
	return page, nil
}

// filesOf are the files of a run.
func filesOf(run string) ([]string, error) {
	info, err := os.Stat(run)
	if err != nil {
		return nil, unreadable(run, err)
	}
	if !info.IsDir() {
		return []string{run}, nil
	}
	entries, err := os.ReadDir(run)
	if err != nil {
		return nil, unreadable(run, err)
	}
	var paths []string
	for _, e := range entries {
		extension := filepath.Ext(e.Name())
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && (extension == ".json" || extension == ".safetensors") {
			paths = append(paths, filepath.Join(run, e.Name()))
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%w: folder %s has no results (.json) and no model (.safetensors); write "+
			"results into it, or give another", ErrRun, run)
	}
	return inOrder(paths), nil
}

// inOrder puts studies in the order in which they run, and the others after them.
func inOrder(paths []string) []string {
	place := map[string]int{}
	for i, s := range study.All() {
		place[s.Name+".json"] = i - len(study.All())
	}
	slices.SortStableFunc(paths, func(a, b string) int { return place[filepath.Base(a)] - place[filepath.Base(b)] })
	return paths
}

func unreadable(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s: %w; give results (.json) or a model (.safetensors)", ErrRun, path,
			fs.ErrNotExist)
	}
	return fmt.Errorf("%w: cannot read %s: %w; change its permissions", ErrRun, path, atomicfile.WithoutPath(err))
}

// largest is more than the size of any results.
const largest = 256 << 20

func openFile(path string) (*Page, error) {
	name := filepath.Base(path)
	if filepath.Ext(path) == ".safetensors" {
		f, err := model.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRun, err)
		}
		sections, err := ModelSections(name, f)
		if err != nil {
			return nil, err
		}
		d := &Page{Title: "Model " + name, Sections: sections}
		if doctor := sections[1]; len(doctor.Claims) > 0 {
			first, _, _ := strings.Cut(doctor.Claims[0].Evidence, ". ")
			d.Summary = []string{fmt.Sprintf("Model %s. %s.", name, strings.TrimSuffix(first, "."))}
		}
		return d, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if info.Size() > largest {
		return nil, fmt.Errorf("%w: %s has %d MB, and results have at most %d; give another file", ErrRun, path,
			info.Size()>>20, largest>>20)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return parse(path, raw)
}

// parse reads a JSON file of any kind.
func parse(path string, raw []byte) (*Page, error) {
	var kind struct {
		Kind     string          `json:"kind"`
		Study    string          `json:"study"`
		Studies  json.RawMessage `json:"studies"`
		Sections json.RawMessage `json:"sections"`
	}
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	if err := json.Unmarshal(raw, &kind); err != nil {
		return nil, fmt.Errorf("%w: %s is not JSON, or damaged: %w; give results (.json) or a model "+
			"(.safetensors)", ErrRun, path, err)
	}
	damaged := func(err error) error {
		return fmt.Errorf("%w: %s is damaged: %w; write it again", ErrRun, path, err)
	}
	switch {
	case kind.Sections != nil:
		d := new(Page)
		if err := json.Unmarshal(raw, d); err != nil {
			return nil, damaged(err)
		}
		if err := d.check(); err != nil {
			return nil, damaged(err)
		}
		return d, nil
	case kind.Studies != nil:
		var printed struct {
			Studies []*study.Result `json:"studies"`
		}
		if err := json.Unmarshal(raw, &printed); err != nil {
			return nil, damaged(err)
		}
		return ofStudies(path, printed.Studies)
	case kind.Kind == evaluate.EvaluationKind:
		e := new(evaluate.Evaluation)
		if err := json.Unmarshal(raw, e); err != nil {
			return nil, damaged(err)
		}
		if e.Panel == nil || slices.ContainsFunc(e.Others, func(o evaluate.Other) bool { return o.Panel == nil }) {
			return nil, damaged(errors.New("it has no panel"))
		}
		d := &Page{Title: "Evaluation of " + e.Model, Sections: EvaluationSections(e),
			Summary: []string{evaluationSummary(e)}}
		if err := d.check(); err != nil {
			return nil, damaged(err)
		}
		return d, nil
	case kind.Kind == recommend.DialKind:
		dial := new(recommend.Dial)
		if err := json.Unmarshal(raw, dial); err != nil {
			return nil, damaged(err)
		}
		words := dial.Words()
		if len(words) == 0 {
			return nil, damaged(errors.New("it has no curve"))
		}
		return &Page{Title: "What the dial of " + dial.Model + " costs", Sections: DialSections(dial),
			Summary: words[:min(2, len(words))]}, nil
	case kind.Study != "":
		r := new(study.Result)
		if err := json.Unmarshal(raw, r); err != nil {
			return nil, damaged(err)
		}
		return ofStudies(path, []*study.Result{r})
	}
	return nil, fmt.Errorf("%w: %s is JSON, but not the results of a study, an evaluation, a dial or a report; give "+
		"one of these", ErrRun, path)
}

func ofStudies(path string, results []*study.Result) (*Page, error) {
	d := new(Page)
	for _, r := range results {
		if r == nil {
			return nil, fmt.Errorf("%w: %s has a study without content; write it again", ErrRun, path)
		}
		s := StudySection(r)
		d.Sections = append(d.Sections, s)
		d.Summary = append(d.Summary, sentence(r))
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrRun, path, err)
	}
	return d, nil
}

// sentence summarises the verdicts on a study's claims.
func sentence(r *study.Result) string {
	text := strings.TrimSuffix(r.Title, ".")
	counts := countVerdicts(r.Claims)
	if counts == "" {
		return text + "."
	}
	if why := r.WhyTooSmall(); why != "" {
		return text + ". Too small to tell (" + why + "); by these numbers, of " +
			number(float64(len(r.Claims)), 0) + " claims: " + counts + "."
	}
	text += ". Of " + number(float64(len(r.Claims)), 0) + " claims: " + counts + "."
	return text
}
