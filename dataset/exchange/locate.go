package exchange

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"unseen/internal/atomicfile"
)

// inputs are the files of one import, "" where there is none.
type inputs struct {
	nodes, links, exposures, fields, clicks, vectors string
	single                                           string // a file that may hold either
}

// tableFlags are flags of all table formats, beside the names of columns.
var tableFlags = []Flag{
	{Name: "vectors", Usage: "`FILE` (.npy, .npz) with one row per node"},
	{Name: "exposures", Usage: "`FILE` with source, target, linked[,exposed…]"},
	logFlag,
}

// logFlag says what the exposures mean for other pairs, so that nobody need say it later.
var logFlag = Flag{Name: "log", Usage: "`KIND`: complete, sample, offered, drawn, ignored"}

// locate finds the files of an import: a folder with nodes.* and links.* (or edges.*), a file of nodes
// and one of links, or a single file.
func locate(o *Options, extensions ...string) (in inputs, err error) {
	defer func() {
		for flag, into := range map[string]*string{"vectors": &in.vectors, "exposures": &in.exposures,
			"clicks": &in.clicks} {
			if o.Flag(flag) != "" {
				*into = o.Flag(flag)
			}
		}
	}()
	switch len(o.Paths) {
	case 2:
		return inputs{nodes: o.Paths[0], links: o.Paths[1]}, nil
	case 1:
	default:
		return in, failAt(Place{}, fmt.Errorf("%w: %d paths", ErrUsage, len(o.Paths)),
			"name a folder, a file of nodes and one of links, or a single file")
	}
	folder := o.Paths[0]
	info, err := os.Stat(folder)
	if err != nil {
		return in, failAt(Place{File: folder}, atomicfile.WithoutPath(err), "name an existing file or folder")
	}
	if !info.IsDir() {
		return inputs{single: folder}, nil
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return in, failAt(Place{File: folder}, atomicfile.WithoutPath(err), "check its permissions")
	}
	take := func(into *string, stems, extensions []string) error {
		for _, e := range entries {
			stem, extension := stemOf(e.Name())
			if e.IsDir() || !slices.Contains(stems, stem) || !slices.Contains(extensions, extension) {
				continue
			}
			if *into != "" {
				return failAt(Place{File: folder}, fmt.Errorf("%w: it has both %s and %s", ErrUsage,
					filepath.Base(*into), e.Name()), "name the files themselves: NODES LINKS")
			}
			*into = filepath.Join(folder, e.Name())
		}
		return nil
	}
	for _, x := range []struct {
		into  *string
		stems []string
	}{
		{&in.nodes, []string{"nodes", "vertices"}}, {&in.links, []string{"links", "edges"}},
		{&in.exposures, []string{"exposures"}}, {&in.fields, []string{"fields"}},
	} {
		if err := take(x.into, x.stems, extensions); err != nil {
			return in, err
		}
	}
	if err := take(&in.vectors, []string{"vectors", "features"}, []string{".npy", ".npz"}); err != nil {
		return in, err
	}
	if in.nodes == "" && in.links == "" {
		return in, failAt(Place{File: folder}, fmt.Errorf("%w: it has neither nodes%s nor links%s", ErrUsage,
			extensions[0], extensions[0]), "name the files themselves: NODES LINKS")
	}
	return in, nil
}

// stemOf splits nodes.csv.gz into nodes and .csv.
func stemOf(name string) (stem, extension string) {
	name = strings.ToLower(name)
	for _, packed := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, packed)
	}
	extension = filepath.Ext(name)
	return strings.TrimSuffix(name, extension), extension
}
