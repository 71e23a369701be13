package study

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"unseen/internal/atomicfile"
)

// Prepare creates a folder for results if there is none, and returns an error if files cannot be written there: before
// hours of work rather than after them.
func Prepare(folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return fmt.Errorf("cannot create folder %s: %w; choose another", folder, atomicfile.WithoutPath(err))
	}
	file, err := os.CreateTemp(folder, ".study-*.tmp")
	if err != nil {
		return fmt.Errorf("cannot write to folder %s: %w; choose another, or change its permissions", folder,
			atomicfile.WithoutPath(err))
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// Write writes every result into a folder: STUDY.json with everything, and STUDY-NAME.csv for every table and figure.
// Each file is replaced as a whole. It returns their paths. Where it fails, as on a full disk, no new file is left of
// the study that is not complete.
func Write(folder string, results []*Result) ([]string, error) {
	var paths []string
	for _, r := range results {
		written, err := r.write(folder)
		if err != nil {
			return paths, err
		}
		paths = append(paths, written...)
	}
	return paths, nil
}

// write writes the files of one study.
func (r *Result) write(folder string) (paths []string, err error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("study %s has no JSON form: %w", r.Study, err)
	}
	var made []string // that were not there
	defer func() {
		for _, path := range made {
			if err != nil {
				os.Remove(path)
			}
		}
	}()
	write := func(name string, content []byte) error {
		path := filepath.Join(folder, name)
		_, missing := os.Lstat(path)
		if err := atomicfile.WriteBytes(path, content); err != nil {
			return err
		}
		if missing != nil {
			made = append(made, path)
		}
		paths = append(paths, path)
		return nil
	}
	if err := write(r.Study+".json", append(raw, '\n')); err != nil {
		return nil, err
	}
	for _, t := range r.Tables {
		if err := write(r.Study+"-"+t.Name+".csv", t.CSV()); err != nil {
			return nil, err
		}
	}
	for _, f := range r.Figures {
		if err := write(r.Study+"-"+f.Name+".csv", f.CSV()); err != nil {
			return nil, err
		}
	}
	return paths, nil
}
