package report

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

var (
	// ErrPage: a page is empty or contradicts itself.
	ErrPage = errors.New("report: unusable page")
	// ErrRun: a file or folder is no run that a report can be made of.
	ErrRun = errors.New("report: unusable run")
)

// WriteHTML writes the document as one page. A reader finds the old file or the new one, whatever happens.
func (d *Page) WriteHTML(path string) error {
	page, err := d.HTML()
	if err != nil {
		return err
	}
	return replace(path, page)
}

// WriteJSON writes the document such that [Open] reads it again.
func (d *Page) WriteJSON(path string) error {
	if err := d.check(); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return fmt.Errorf("%w: %q has no JSON form: %w", ErrPage, d.Title, err)
	}
	return replace(path, append(raw, '\n'))
}

// WriteFigures writes every figure into a folder, as SECTION-NAME.svg and SECTION-NAME.png in light colours and twice
// as many dots as pixels. It makes the folder and returns the files' paths.
func (d *Page) WriteFigures(folder string) ([]string, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, fmt.Errorf("report: the folder %s cannot be made: %w; choose another", folder, cause(err))
	}
	var paths []string
	taken := map[string]bool{}
	for i, section := range d.names() {
		for _, f := range d.Sections[i].Figures {
			stem := filepath.Join(folder, unique(section+"-"+slug(f.Name), taken))
			width := wideWidth
			if half(f) {
				width = halfWidth
			}
			drawn := drawFigure(f, width, true)
			dots, err := drawn.png()
			if err != nil {
				return paths, fmt.Errorf("report: figure %q of %q has no PNG form: %w", f.Title, d.Sections[i].Title,
					err)
			}
			for _, file := range []struct {
				path    string
				content []byte
			}{{stem + ".svg", []byte(drawn.svg(false))}, {stem + ".png", dots}} {
				if err := replace(file.path, file.content); err != nil {
					return paths, err
				}
				paths = append(paths, file.path)
			}
		}
	}
	return paths, nil
}

// replace writes a file such that a reader finds the old one or the new one.
func replace(path string, content []byte) error {
	err := atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// cause is what the system said, without the path, which the sentence around it has.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}
