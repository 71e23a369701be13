package exchange

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"unseen/dataset"
	"unseen/graph"
	"unseen/progress"
)

// Format is a foreign format that can be imported.
type Format struct {
	Name    string   // a word in lower case, as in: unseen import NAME
	Summary string   // one line
	Help    string   // what the paths are and how records are understood; lines of at most 79 columns
	Args    string   // for the usage line, as "NODES [LINKS]"; empty means PATH…
	Flags   []Flag   // beyond those that every import has
	Files   []string // flags that name the files to read; then there are no paths
	// Import reads everything at o.Paths and gives it to the sink. It returns the sink's errors as they are.
	Import func(ctx context.Context, o Options, s Sink) error
}

// Flag is an option of one format. Values are text, as given on a command line.
type Flag struct {
	Name    string // without dashes
	Default string
	Usage   string // at most 48 columns; a word in backquotes names the value
	Switch  bool   // takes no value: "true" when given
}

// Options says what to import and how.
type Options struct {
	Paths []string          // files or folders, as the format takes them
	Flags map[string]string // by name; one that is not there has its default
	// Lenient skips bad records, counts them and lists them in a rejects.csv. Strict imports stop at the first.
	Lenient bool
	// NodesFromLinks makes a node of every end of a link that has no record of its own.
	NodesFromLinks bool
	// Undirected adds every link in both directions.
	Undirected bool
	// FieldSeparator separates the fields of one node, of which the first counts. Empty means one field.
	FieldSeparator string
	// FieldTree is the parent of every field that has one; a node's field is the root above it.
	FieldTree map[string]string
	// Force replaces an existing dataset.
	Force      bool
	Provenance dataset.Provenance
	Limits     Limits
	Progress   progress.Func // called from the caller's goroutine; may be nil
	// Open opens a table that is in no folder of this machine. Errors and bad records name it by its path all the same,
	// and the path's extension says its format. Its errors are returned as they are. Nil opens files of this machine.
	Open func(path string) (InputFile, error)

	format *Format // for the defaults of its flags
	size   int64   // bytes of all files at Paths
}

// Flag returns the value of a flag, or its default.
func (o *Options) Flag(name string) string {
	if v, given := o.Flags[name]; given {
		return v
	}
	if o.format != nil {
		for _, f := range o.format.Flags {
			if f.Name == name {
				return f.Default
			}
		}
	}
	return ""
}

// Given reports whether a flag was given, even as its default.
func (o *Options) Given(name string) bool {
	_, given := o.Flags[name]
	return given
}

// reading reports how much of a file has been read.
func (o *Options) reading(path string, done, of int64) {
	o.Progress.Report(progress.Event{Phase: "reading " + filepath.Base(path), Done: done, Of: of})
}

// Limits keep a hostile or damaged file from exhausting the machine. Zero means the default.
type Limits struct {
	Record    int     // bytes of one record; 64 MiB
	Expansion float64 // bytes out of one compressed byte; 200
	Free      int64   // bytes that any file may expand to; 64 MiB
	// Large is how many bytes a file may expand to by Expansion; beyond, only to LargeExpansion times its size.
	Large          int64   // 256 MiB
	LargeExpansion float64 // 30
	Records        int64   // that any file may hold; a larger one holds at most one for two bytes. 4,194,304
	// Names is how many bytes of ids, titles and fields any files may hold together, with 16 more for every node;
	// larger ones hold 8 times their size. 64 MiB
	Names     int64
	Exposures int64 // that any files may hold; larger ones hold at most one for four bytes. 2,097,152
}

// bytes is how many bytes a file of a size may hold.
func (l Limits) bytes(packed int64) int64 {
	size := float64(packed)
	return max(l.Free, int64(min(l.Expansion*size, float64(l.Large))), int64(min(l.Expansion, l.LargeExpansion)*size))
}

// records is how many records a file of a size may hold. Text has fewer anyhow; a compressed file with more repeats
// them, and each takes memory.
func (l Limits) records(packed int64) int64 { return max(l.Records, packed/2) }

// names is how many bytes of names files of a size may hold together. All of them are in memory, and counters as ids
// take no room in a compressed file.
func (l Limits) names(packed int64) int64 { return max(l.Names, 8*packed) }

// exposures is how many exposures files of a size may hold together.
func (l Limits) exposures(packed int64) int64 { return max(l.Exposures, packed/4) }

func (l Limits) withDefaults() Limits {
	if l.Record <= 0 {
		l.Record = 64 << 20
	}
	if l.Expansion <= 0 {
		l.Expansion = 200
	}
	if l.Free <= 0 {
		l.Free = 64 << 20
	}
	if l.Large <= 0 {
		l.Large = 256 << 20
	}
	if l.LargeExpansion <= 0 {
		l.LargeExpansion = 30
	}
	if l.Records <= 0 {
		l.Records = 1 << 22
	}
	if l.Names <= 0 {
		l.Names = 64 << 20
	}
	if l.Exposures <= 0 {
		l.Exposures = 1 << 21
	}
	return l
}

// Place is where a record came from. Zero parts are unknown.
type Place struct {
	File   string
	Line   int // from 1; in a table without lines, the row
	Column int // bytes into the line, from 1
}

func (p Place) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ", line %d", p.Line)
	}
	if p.Column > 0 {
		fmt.Fprintf(&b, ", column %d", p.Column)
	}
	return b.String()
}

// NodeRecord is a node as a file describes it. Only the id is needed.
type NodeRecord struct {
	ID    string
	Field string     // one, or more with Options.FieldSeparator between them
	Title string     // optional
	Text  string     // optional
	Time  time.Time  // zero means unknown
	Role  graph.Role // zero means source and target
}

// ExposureRecord says whether a target was shown to a source.
type ExposureRecord struct {
	Source, Target string
	Shown          float64 // probability that it was shown; NaN where unknown
	Exposed        bool    // whether it was shown
	Linked         bool    // whether the source then linked to it

	// What more may be known; zero means unknown.
	Count    int // how often it was shown
	Position int // its best place in a list, from 1 on
	Surface  string
	Time     time.Time // when it was shown first
}

// Sink receives the records of an import. Strings and slices are copied before a call returns, so they may
// point into a buffer that is used again. An error ends the import; the format returns it as it is.
//
// Nodes, links and exposures may come in any order, links also before their nodes. What waits for a node
// takes memory, so a format that knows all nodes before its links calls EndNodes between them.
type Sink interface {
	// Node adds a node and returns its number, counted from 0, or −1 where it was rejected: its id is
	// empty or taken, or something is not UTF-8.
	Node(n NodeRecord, at Place) (int32, error)
	// Field gives a field its number before any node has it; most formats need not.
	Field(name string) error
	// NodesFromLinks says that there are no records of nodes, as in a list of links: every end is a node.
	NodesFromLinks()
	// EndNodes says that no further Node comes: an end that is no node is then rejected at once.
	EndNodes()
	// Link adds a link by the ids of its ends. One from a node to itself is counted and dropped, as is one
	// that was there already. The sink keeps no string that it is given, only copies.
	Link(source, target string, at Place) error
	// LinkAt is Link with a time, in seconds from 1970; graph.NoTime where it is unknown.
	LinkAt(source, target string, seconds int64, at Place) error
	// LinkIndex adds a link by the numbers that Node returned.
	LinkIndex(source, target int32, at Place) error
	// Exposure adds what is known of a pair.
	Exposure(e ExposureRecord, at Place) error
	// Has reports whether a node of that id exists yet.
	Has(id string) bool
	// Vector sets the vector of a node by the number that Node returned. All have the same dimension; a node
	// without one gets zeros.
	Vector(node int32, vector []float32, at Place) error
	// Reject says that a record is bad: why, with a hint on what to do (hint.Wrap), and how it begins. It
	// returns an error where the import is strict; else nil, and the format continues with the next record.
	Reject(at Place, reason error, record []byte) error
	// Note reports something to the user that is not an error, such as which columns were guessed. Arguments that are
	// hint.Settings are rendered by the program that shows it.
	Note(format string, a ...any)
}

var registry []Format

// Register makes a format known. It panics if the name is taken, or a part is missing.
func Register(f Format) {
	if f.Name == "" || f.Summary == "" || f.Import == nil {
		panic(fmt.Sprintf("exchange: format %q lacks a name, a summary or an Import", f.Name))
	}
	if _, known := Lookup(f.Name); known {
		panic(fmt.Sprintf("exchange: two formats are called %q", f.Name))
	}
	registry = append(registry, f)
}

// Formats returns all formats by name.
func Formats() []Format {
	all := slices.Clone(registry)
	slices.SortFunc(all, func(a, b Format) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Lookup returns the format of a name.
func Lookup(name string) (Format, bool) {
	for _, f := range registry {
		if f.Name == name {
			return f, true
		}
	}
	return Format{}, false
}
