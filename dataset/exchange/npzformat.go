package exchange

import (
	"context"
	"fmt"
	"strconv"
)

func init() {
	Register(Format{
		Name: "npz", Summary: "A sparse matrix of links as scipy saves it",
		Args: "FOLDER | LINKS.npz | NODES LINKS.npz",
		Help: `LINKS.npz is a square sparse matrix that scipy saved (save_npz, in CSR form): a
nonzero entry in row i and column j is a link from node i to node j. NODES is a
CSV file with one row per node, in the same order; without it the ids are 0, 1,
2, … A folder has links.npz and may have nodes.csv, vectors.npy (or
features.npz) and exposures.csv.`,
		Flags:  append(append([]Flag{}, roleFlags[:6]...), tableFlags...),
		Import: importNpz,
	})
}

func importNpz(ctx context.Context, o Options, s Sink) error {
	table, err := locate(&o, ".csv", ".tsv")
	in, otherErr := locate(&o, ".npz")
	switch {
	case otherErr != nil:
		return otherErr
	case in.single != "":
		in.links = in.single
	case len(o.Paths) == 1 && err == nil: // what else is in the folder
		in.nodes, in.exposures, in.fields = table.nodes, table.exposures, table.fields
	}
	if in.links == "" {
		return failAt(Place{File: o.Paths[0]}, fmt.Errorf("%w: it has no links.npz", ErrUsage),
			"name the files themselves: NODES LINKS.npz")
	}
	m, err := openMatrix(ctx, in.links, o.Limits)
	if err != nil {
		return err
	}
	defer m.close()
	at := Place{File: in.links}
	if !m.sparse || m.rows != m.dim {
		return failAt(at, fmt.Errorf("%w: it is not a square sparse matrix but %d×%d", ErrFormat, m.rows, m.dim),
			matrixHint)
	}
	if in.fields != "" {
		if err := csvFields(ctx, in.fields, o, s); err != nil {
			return err
		}
	}
	var rows []int32
	if in.nodes != "" {
		if rows, err = csvNodes(ctx, in.nodes, o, s); err != nil {
			return err
		}
		if len(rows) != m.rows {
			return failAt(at, fmt.Errorf("%w: %d rows for %d nodes", ErrFormat, m.rows, len(rows)),
				"save one row and column per node, in the order of the nodes")
		}
	} else {
		for i := range m.rows {
			node, err := s.Node(NodeRecord{ID: strconv.Itoa(i)}, at)
			if err != nil {
				return err
			}
			rows = append(rows, node)
		}
	}
	s.EndNodes()
	for i := range m.rows {
		if i%4096 == 0 {
			o.reading(in.links, int64(i), int64(m.rows))
		}
		at := Place{File: in.links, Line: i + 1}
		err := m.cells(func(j int, value float32) error {
			if value == 0 || rows[i] < 0 || rows[j] < 0 {
				return nil // no link, or one of a rejected node
			}
			return s.LinkIndex(rows[i], rows[j], at)
		})
		if err != nil {
			if _, ours := err.(*Error); ours || ctx.Err() != nil {
				return err
			}
			return failAt(at, err, matrixHint)
		}
	}
	if err := m.finish(in.links); err != nil {
		return err
	}
	if in.vectors != "" {
		if err := importVectors(ctx, in.vectors, o, s, rows); err != nil {
			return err
		}
	}
	if in.exposures != "" {
		return csvExposures(ctx, in.exposures, o, s)
	}
	return nil
}
