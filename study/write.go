package study

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"unseen/internal/atomicfile"
)

// Prepare makes a folder for results, unless there is one, and tells whether files can be written there: before
// hours of work rather than after them.
func Prepare(folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return fmt.Errorf("the folder %s cannot be made: %w; choose another", folder, cause(err))
	}
	file, err := os.CreateTemp(folder, ".study-*.tmp")
	if err != nil {
		return fmt.Errorf("the folder %s cannot be written to: %w; choose another, or mend its permissions", folder,
			cause(err))
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Write writes every result into a folder: STUDY.json with all of it, and STUDY-NAME.csv for every table and
// figure. Each file is the old one or the new one, whatever happens in between. It returns their paths.
func Write(folder string, results []*Result) ([]string, error) {
	var paths []string
	for _, r := range results {
		if err := r.check(); err != nil {
			return paths, err
		}
		raw, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return paths, fmt.Errorf("study %s has no JSON form: %w", r.Study, err)
		}
		files := []struct {
			name    string
			content []byte
		}{{r.Study + ".json", append(raw, '\n')}}
		for _, t := range r.Tables {
			files = append(files, struct {
				name    string
				content []byte
			}{r.Study + "-" + t.Name + ".csv", t.CSV()})
		}
		for _, f := range r.Figures {
			files = append(files, struct {
				name    string
				content []byte
			}{r.Study + "-" + f.Name + ".csv", f.CSV()})
		}
		for _, f := range files {
			path := filepath.Join(folder, f.name)
			if err := atomicfile.Write(path, func(w io.Writer) error {
				_, err := w.Write(f.content)
				return err
			}); err != nil {
				return paths, err
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}
