package exchange

import (
	"context"
	"fmt"
	"unsafe"

	"unseen/hint"
)

func init() {
	Register(Format{
		Name: "edges", Summary: "A plain list of links: two ids per line",
		Args: "LINKS…",
		Help: `Every line holds a source and a target with spaces or tabs between them; what
follows, such as a weight, is ignored. Empty lines and lines that begin with #
or % are skipped. The nodes are the ends of the links. Files may be compressed
(.gz, .zst).`,
		Import: importEdges,
	})
}

func importEdges(ctx context.Context, o Options, s Sink) error {
	s.NodesFromLinks()
	s.EndNodes()
	for _, path := range o.Paths {
		lines, err := OpenLines(ctx, path, o)
		if err != nil {
			return err
		}
		err = readEdges(lines, s)
		lines.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func readEdges(lines *Lines, s Sink) error {
	for lines.Next() {
		line := lines.Bytes()
		if bad := lines.Fault(); bad != nil {
			if err := s.Reject(bad.Place, bad.Err, line); err != nil {
				return err
			}
			continue
		}
		source, rest := word(line)
		if len(source) == 0 || source[0] == '#' || source[0] == '%' {
			continue
		}
		target, _ := word(rest)
		if len(target) == 0 {
			if err := s.Reject(lines.Place(), hint.Wrap(fmt.Errorf("%w: only one id", ErrFormat),
				"write a source and a target in every line"), line); err != nil {
				return err
			}
			continue
		}
		if err := s.Link(alias(source), alias(target), lines.Place()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// word splits a line into its first word and the rest.
func word(line []byte) (first, rest []byte) {
	k := 0
	for k < len(line) && blank(line[k]) {
		k++
	}
	start := k
	for k < len(line) && !blank(line[k]) {
		k++
	}
	return line[start:k], line[k:]
}

func blank(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\v' || b == '\f' }

// alias is a string in the memory of bytes, which must not change while it is used.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
