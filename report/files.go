package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"unseen/internal/atomicfile"
)

var (
	// ErrPage: a page is empty or inconsistent.
	ErrPage = errors.New("unusable page")
	// ErrRun: a report cannot be made of this file or folder.
	ErrRun = errors.New("unusable run")
)

// WriteHTML writes the page as one file, which replaces an old one as a whole.
func (p *Page) WriteHTML(path string) error {
	content, err := p.HTML()
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, content)
}

// WriteJSON writes the page in the form that [Open] reads.
func (p *Page) WriteJSON(path string) error {
	if err := p.check(); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("%w: %q has no JSON form: %w", ErrPage, p.Title, err)
	}
	return atomicfile.WriteBytes(path, append(raw, '\n'))
}

// WriteFigures writes every figure into a folder, as SECTION-NAME.svg and SECTION-NAME.png, in light colours; a PNG has
// two dots per CSS pixel. It creates the folder and returns the paths of the files.
func (p *Page) WriteFigures(folder string) ([]string, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, fmt.Errorf("cannot create folder %s: %w; choose another", folder, atomicfile.WithoutPath(err))
	}
	var paths []string
	taken := map[string]bool{}
	for i, section := range p.names() {
		for _, f := range p.Sections[i].Figures {
			stem := filepath.Join(folder, unique(section+"-"+slug(f.Name), taken))
			width := wideWidth
			if half(f) {
				width = halfWidth
			}
			drawn := drawFigure(f, width, true)
			dots, err := drawn.png()
			if err != nil {
				return paths, fmt.Errorf("cannot draw figure %q of %q as PNG: %w", f.Title,
					p.Sections[i].Title, err)
			}
			for _, file := range []struct {
				path    string
				content []byte
			}{{stem + ".svg", []byte(drawn.svg(false))}, {stem + ".png", dots}} {
				if err := atomicfile.WriteBytes(file.path, file.content); err != nil {
					return paths, err
				}
				paths = append(paths, file.path)
			}
		}
	}
	return paths, nil
}
