package exchange

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// inputs are the files of one import. Empty ones are not there.
type inputs struct {
	nodes, links, exposures, fields, clicks, vectors string
	single                                           string // a file that may hold either
}

// tableFlags are those of formats that come as tables, beyond the names of columns.
var tableFlags = []Flag{
	{Name: "vectors", Usage: "`FILE` (.npy, .npz) with a row per node"},
	{Name: "exposures", Usage: "`FILE` of source, target, linked, exposed?, shown?"},
}

// locate finds the files that paths speak of: a folder with nodes.* and links.* (or edges.*), a file of nodes
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
		return in, Wrong(Place{}, fmt.Errorf("%w: %d paths", ErrUsage, len(o.Paths)),
			"name a folder, a file of nodes and one of links, or a single file")
	}
	folder := o.Paths[0]
	info, err := os.Stat(folder)
	if err != nil {
		return in, Wrong(Place{File: folder}, bare(err), "name a file or a folder that is there")
	}
	if !info.IsDir() {
		return inputs{single: folder}, nil
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return in, Wrong(Place{File: folder}, bare(err), "ask for the right to read it")
	}
	take := func(into *string, stems, extensions []string) error {
		for _, e := range entries {
			stem, extension := stemOf(e.Name())
			if e.IsDir() || !slices.Contains(stems, stem) || !slices.Contains(extensions, extension) {
				continue
			}
			if *into != "" {
				return Wrong(Place{File: folder}, fmt.Errorf("%w: both %s and %s could be meant", ErrUsage,
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
		return in, Wrong(Place{File: folder}, fmt.Errorf("%w: there is no nodes%s nor links%s in it", ErrUsage,
			extensions[0], extensions[0]), "name the files themselves: NODES LINKS")
	}
	return in, nil
}

// stemOf parts nodes.csv.gz into nodes and .csv.
func stemOf(name string) (stem, extension string) {
	name = strings.ToLower(name)
	for _, packed := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, packed)
	}
	extension = filepath.Ext(name)
	return strings.TrimSuffix(name, extension), extension
}
