package exchange

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"unseen/dataset"
	"unseen/graph"
	"unseen/hint"
	"unseen/internal/atomicfile"
)

// Report says what an import made, and what it left out.
type Report struct {
	graph.BuildReport             // nodes, links, fields; repeated and self-links that were dropped
	Exposures         int         `json:",omitempty"`
	Dimension         int         `json:",omitempty"` // of the vectors
	Rejected          int         // bad records that were skipped
	RejectsFile       string      `json:",omitempty"` // lists them
	Notes             []hint.Note `json:",omitempty"` // what was guessed or left out
	Manifest          *dataset.Manifest
}

// Import reads files of a format and writes a dataset into the folder dir. An error, a cancelled context or a
// full disk leaves dir as it was and nothing beside it.
//
// A lenient import lists the bad records that it skipped in a file beside the folder, DIR.rejects.csv: file,
// line, column, reason, and how the record begins.
func Import(ctx context.Context, format, dir string, o Options) (*Report, error) {
	f, known := Lookup(format)
	if !known {
		var names []string
		for _, f := range Formats() {
			names = append(names, f.Name)
		}
		return nil, failAt(Place{}, fmt.Errorf("%w: unknown format %.40q", ErrUsage, format), "use one of %s",
			strings.Join(names, ", "))
	}
	return importFormat(ctx, f, dir, o)
}

// checkLog is nil for a kind of exposures that can be recorded; "" means that nobody has said.
func checkLog(kind string) error {
	if slices.Contains([]string{"", "complete", "sample", "offered", "drawn", "ignored"}, kind) {
		return nil
	}
	return failAt(Place{}, fmt.Errorf("%w: log is %.40q", ErrUsage, kind), "set %v to complete if nothing else was "+
		"shown to those people, to sample if pairs were drawn whether shown or not, to offered if a recommender "+
		"showed them after the links, to drawn if they were drawn at random to be shown then, to ignored if "+
		"learning should leave them out", hint.Setting("log"))
}

// unsaidLog is the note on exposures that hold only what was shown, where nothing says what that means for the rest.
const unsaidLog = "The exposures hold only what was shown. Set %v to complete if nothing else was shown to those " +
	"people; else learning must be told what to make of them."

func importFormat(ctx context.Context, f Format, dir string, o Options) (report *Report, err error) {
	o.format = &f
	for _, name := range slices.Sorted(maps.Keys(o.Flags)) {
		if !slices.ContainsFunc(f.Flags, func(flag Flag) bool { return flag.Name == name }) {
			return nil, failAt(Place{}, fmt.Errorf("%w: %s has no setting %s", ErrUsage, f.Name, name), "leave it out")
		}
	}
	if err := checkLog(o.Flag("log")); err != nil {
		return nil, err
	}
	if len(f.Files) > 0 {
		if len(o.Paths) > 0 {
			return nil, failAt(Place{}, fmt.Errorf("%w: the path %s", ErrUsage, o.Paths[0]), "name files by %v",
				hint.Setting(f.Files[0]))
		}
		for _, flag := range f.Files {
			if path := o.Flag(flag); path != "" {
				o.Paths = append(o.Paths, path)
			}
		}
	} else if len(o.Paths) == 0 {
		return nil, failAt(Place{}, fmt.Errorf("%w: no paths", ErrUsage), "name the files to import")
	}
	exists, err := dataset.Writable(dir)
	if err != nil {
		return nil, err
	}
	if exists && !o.Force {
		return nil, failAt(Place{File: dir}, ErrExists, "choose another folder, or set %v to replace it",
			hint.Setting("force"))
	}
	o.size = sizeOf(o.Paths)
	dir = filepath.Clean(dir)
	scratch, remove, err := atomicfile.Scratch(dir)
	if err != nil {
		return nil, err
	}
	defer remove()
	c, err := newCollector(ctx, scratch, o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := f.Import(ctx, o, c); err != nil {
		return nil, err
	}
	content, err := c.finish()
	if err != nil {
		return nil, err
	}
	if v := content.Graph.Vectors(); v != nil {
		defer v.Close()
	}
	if o.Provenance.Source == "" {
		o.Provenance.Source = strings.Join(o.Paths, " ")
	}
	list := dir + ".rejects.csv"
	listed, err := c.rejects.save(list)
	if err != nil {
		return nil, err
	}
	if listed {
		c.report.RejectsFile = list
	}
	c.report.Manifest, err = dataset.Write(ctx, dir, content, dataset.WriteOptions{Provenance: o.Provenance,
		Progress: o.Progress})
	if err != nil {
		if listed {
			os.Remove(list)
		}
		return nil, err
	}
	if !listed {
		removeOldRejects(list) // of the dataset that was replaced
	}
	return &c.report, nil
}

// sizeOf adds up the files at paths and below them. What is not there is left to the format.
func sizeOf(paths []string) (size int64) {
	add := func(path string) bool {
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return err == nil && info.IsDir()
	}
	for _, path := range paths {
		if !add(path) {
			continue
		}
		filepath.WalkDir(path+string(filepath.Separator), func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				add(name)
			}
			return nil
		})
	}
	return size
}
