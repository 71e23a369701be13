package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"unseen/hint"
)

func init() {
	Register(Format{
		Name: "jsonl", Summary: "JSON lines: one node or link per line",
		Args: "FOLDER | FILE…",
		Help: `Paths are a folder that holds nodes.jsonl and links.jsonl (or edges.jsonl), or
files, in each of which lines may be nodes or links: a line with a source and a
target is a link. Files may be compressed (.gz, .zst). Vectors are read from
vectors.npy in the folder, exposures from exposures.jsonl.

Flags say which key is which; without them, keys are guessed by their names and
the guesses are printed. Ids may be numbers, which are kept as they are written.
If a node has a list of fields, the first is used.`,
		Flags:  slices.Concat(roleFlags, tableFlags, flagsOf("exposures", exposureRoles)),
		Import: importJSONL,
	})
}

func importJSONL(ctx context.Context, o Options, s Sink) error {
	var in inputs
	var err error
	files := o.Paths
	if len(o.Paths) == 1 {
		if in, err = locate(&o, ".jsonl", ".ndjson", ".json"); err != nil {
			return err
		}
		files = slices.DeleteFunc([]string{in.single, in.nodes, in.links}, func(f string) bool { return f == "" })
		if in.nodes == "" && in.links != "" {
			s.NodesFromLinks()
		}
	} else {
		in.vectors, in.exposures = o.Flag("vectors"), o.Flag("exposures")
	}
	if in.fields != "" {
		if err := eachObject(ctx, in.fields, o, s, func(x *object) error {
			k := slices.Index(x.keys, "field")
			if k < 0 {
				return s.Reject(x.at, hint.Wrap(fmt.Errorf("%w: no field", ErrFormat), `write {"field": "name"}`),
					x.line)
			}
			return s.Field(x.text(k))
		}); err != nil {
			return err
		}
	}
	r := jsonlReader{options: o, sink: s}
	for _, path := range files {
		if path == in.links {
			s.EndNodes() // a folder has its nodes in a file of their own
		}
		r.noted = false
		if err := eachObject(ctx, path, o, s, r.record); err != nil {
			return err
		}
	}
	if in.vectors != "" {
		if err := importVectors(ctx, in.vectors, o, s, r.rows); err != nil {
			return err
		}
	}
	if in.exposures == "" {
		return nil
	}
	return eachObject(ctx, in.exposures, o, s, func(x *object) error {
		plain := Options{Flags: exposureFlags(o)}
		found, err := columns(&plain, x.at, x.keys, exposureRoles, "source", "target", "linked")
		var e ExposureRecord
		if err == nil {
			e, err = exposureOf(func(k int) (string, bool) { return x.text(found[k]), found[k] >= 0 })
		}
		if err != nil {
			return s.Reject(x.at, hint.Wrap(plainReason(err), `write {"source": "a", "target": "b", "linked": true}`),
				x.line)
		}
		return s.Exposure(e, x.at)
	})
}

// jsonlReader reads nodes and links of one or more files.
type jsonlReader struct {
	options Options
	sink    Sink
	rows    []int32 // the nodes in their order, −1 where one was rejected
	noted   bool    // guesses of this file are reported

	keys         []string // of the last object, for which the columns are
	links, nodes []int    // nil where it cannot be one
	err          error    // where it can be neither
}

func (r *jsonlReader) record(x *object) error {
	if r.keys == nil || !slices.Equal(r.keys, x.keys) {
		r.keys = slices.Clone(x.keys)
		r.links, r.nodes = nil, nil
		if r.links, r.err = columns(&r.options, x.at, x.keys, linkRoles, "source", "target"); r.err != nil {
			r.links = nil
			r.nodes, r.err = columns(&r.options, x.at, x.keys, nodeRoles, "id")
		}
	}
	if r.err != nil {
		// A flag that names a key which this object lacks is no error where the key is not needed.
		plain := r.options
		plain.Flags = map[string]string{}
		for name, key := range r.options.Flags {
			if slices.Contains(x.keys, key) || name == "id" {
				plain.Flags[name] = key
			} else {
				plain.Flags[name] = ""
			}
		}
		if r.nodes, r.err = columns(&plain, x.at, x.keys, nodeRoles, "id"); r.err != nil {
			err := r.err
			r.keys = nil
			return r.sink.Reject(x.at, hint.Wrap(fmt.Errorf("%w: neither a node nor a link: %v", ErrFormat,
				plainReason(err)), "set %v, or %v and %v, to the names of the keys", hint.Setting("id"),
				hint.Setting("source"), hint.Setting("target")), x.line)
		}
	}
	if r.links != nil {
		r.note(x, linkRoles, r.links)
		when, err := parseSeconds(x.text(r.links[2]))
		if err != nil {
			return r.sink.Reject(x.at, hint.Wrap(err, secondsHint), x.line)
		}
		return r.sink.LinkAt(x.text(r.links[0]), x.text(r.links[1]), when, x.at)
	}
	r.note(x, nodeRoles, r.nodes)
	when, err := parseTime(x.text(r.nodes[4]))
	if err != nil {
		r.rows = append(r.rows, -1)
		return r.sink.Reject(x.at, hint.Wrap(err, timeHint), x.line)
	}
	node, err := r.sink.Node(NodeRecord{ID: x.text(r.nodes[0]), Field: x.text(r.nodes[1]), Title: x.text(r.nodes[2]),
		Text: x.text(r.nodes[3]), Time: when, Role: roleOf(x.text(r.nodes[5]))}, x.at)
	r.rows = append(r.rows, node)
	return err
}

func (r *jsonlReader) note(x *object, roles []role, found []int) {
	if !r.noted {
		r.noted = true
		noteGuesses(r.sink, &r.options, x.at.File, x.keys, roles, found)
	}
}

// object is one line. Keys and values are in the order of the line.
type object struct {
	at     Place
	line   []byte
	keys   []string
	values [][]byte // raw
}

// eachObject calls each for every object; the sink gets the bad lines.
func eachObject(ctx context.Context, path string, o Options, s Sink, each func(*object) error) error {
	lines, err := OpenLines(ctx, path, o)
	if err != nil {
		return err
	}
	defer lines.Close()
	var x object
	for lines.Next() {
		line := bytes.TrimSpace(lines.Bytes())
		if bad := lines.Fault(); bad != nil {
			if err := s.Reject(bad.Place, bad.Err, line); err != nil {
				return err
			}
			continue
		}
		if len(line) == 0 {
			continue
		}
		x.at, x.line = lines.Place(), line
		if err := x.parse(); err != nil {
			at := x.at
			if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
				at.Column = int(syntax.Offset) + bytes.Index(lines.Bytes(), line)
			}
			if err := s.Reject(at, hint.Wrap(fmt.Errorf("%w: %v", ErrFormat, err), "write one JSON object per line"),
				line); err != nil {
				return err
			}
			continue
		}
		if err := each(&x); err != nil {
			return err
		}
	}
	return lines.Err()
}

var errNoObject = errors.New("not an object")

// parse finds the keys and values. It first checks that the line is JSON, so that the rest can be short.
func (x *object) parse() error {
	if !json.Valid(x.line) {
		var any any
		return json.Unmarshal(x.line, &any)
	}
	if x.line[0] != '{' {
		return errNoObject
	}
	keys := x.keys
	x.keys, x.values = x.keys[:0], x.values[:0]
	rest := bytes.TrimLeft(x.line[1:], " \t\r\n")
	for rest[0] != '}' {
		end := valueEnd(rest)
		raw := rest[:end]
		// The keys of one line are most often those of the last.
		var key string
		if k := len(x.keys); k < len(keys) && len(raw) == len(keys[k])+2 && string(raw[1:len(raw)-1]) == keys[k] {
			key = keys[k]
		} else if err := json.Unmarshal(raw, &key); err != nil {
			return err
		}
		rest = bytes.TrimLeft(rest[end:], " \t\r\n:")
		end = valueEnd(rest)
		if k := slices.Index(x.keys, key); k >= 0 {
			x.values[k] = rest[:end] // the last one counts
		} else {
			x.keys, x.values = append(x.keys, key), append(x.values, rest[:end])
		}
		rest = bytes.TrimLeft(rest[end:], " \t\r\n,")
	}
	return nil
}

// valueEnd returns where the value ends that valid JSON begins with.
func valueEnd(text []byte) int {
	switch text[0] {
	case '"':
		for k := 1; ; k++ {
			switch text[k] {
			case '\\':
				k++
			case '"':
				return k + 1
			}
		}
	case '{', '[':
		depth := 0
		for k := 0; ; k++ {
			switch text[k] {
			case '"':
				k += valueEnd(text[k:]) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return k + 1
				}
			}
		}
	}
	for k, b := range text {
		switch b {
		case ',', '}', ']', ' ', '\t', '\r', '\n', ':':
			return k
		}
	}
	return len(text)
}

// text is a value as text: a string's own, a number as it is written, nothing for null, the first element of
// a list.
func (x *object) text(k int) string {
	if k < 0 {
		return ""
	}
	return plainText(x.values[k])
}

func plainText(raw []byte) string {
	switch {
	case raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0:
		return alias(raw[1 : len(raw)-1])
	case raw[0] == '"':
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return ""
		}
		return text
	case string(raw) == "null":
		return ""
	case raw[0] == '[':
		inner := bytes.TrimLeft(raw[1:], " \t\r\n")
		if inner[0] == ']' {
			return ""
		}
		return plainText(inner[:valueEnd(inner)])
	}
	return alias(raw)
}
