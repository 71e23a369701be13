package study

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ShownSet is people and items of which it is known what was shown to whom, and what they liked of it.
type ShownSet struct {
	Name          string `json:"name"`
	People, Items []string
	Since         []int64 // when every item came, in seconds since 1970; nil where no times are known
	Shown         []ShownPair
	Random        []ShownPair // pairs to judge by that were shown at random; nil: a fifth of Shown is held out

	drawnFrom int // how many people these were drawn from, where there were too many; 0 means that these are all
}

// ShownPair is an item that was shown to a person, and whether the person liked it.
type ShownPair struct {
	Person, Item int32
	Liked        bool
	Time         int64 // in seconds since 1970; 0 without times
}

// ShownOptions say how to read a set. The zero value is ready.
type ShownOptions struct {
	// Test is a file with ratings of pairs that were shown at random, to judge by; "" holds out a fifth of what was
	// shown.
	Test string
	// Threshold is the least rating that is a like. 0 means that the scale says it: above 0 where some ratings are
	// below, else from 3 on.
	Threshold float64
	// People is how many people are drawn, of more; 0 means as many as the study has time for.
	People int
}

// mostShownPairs is how many pairs of people and items a set has at most, since every method learns from all of them.
// Of more, so many people are drawn that it has no more.
const mostShownPairs = 1_000_000

// OpenShown reads what was shown: a folder with votes.csv.gz and statements.csv.gz, as conversations of Polis are
// published, where a vote of 1 is a like; a folder with ratings.csv.gz; or a file of ratings. Files need not be
// compressed.
//
// Ratings are a table of a person, an item and a rating a row, with commas or tabs, and with a head that names the
// columns, such as user_id, video_id and watch_ratio, or without one; or a matrix of numbers with a row for every
// person and a column for every item, in which 0 is no rating. So Coat, Yahoo R3 and KuaiRec are read as they are
// published.
func OpenShown(path string, o ShownOptions) (*ShownSet, error) {
	s := &ShownSet{Name: filepath.Base(filepath.Clean(path))}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	people, items := numbering{}, numbering{}
	if !info.IsDir() {
		s.Name, _, _ = strings.Cut(s.Name, ".")
	} else if path, err = s.openFolder(path, items); err != nil {
		return nil, err
	}
	stated := len(items)
	table, err := readRatings(path, people, items, s.Since != nil)
	if err != nil {
		return nil, err
	}
	if s.Since != nil && len(items) > stated {
		return nil, fmt.Errorf("%w: %s has votes on %d statements that statements.csv does not have", ErrOption,
			table.path, len(items)-stated)
	}
	tables := []*ratingTable{table}
	if o.Test != "" {
		known := int32(len(people))
		test, err := readRatings(o.Test, people, items, false)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(test.pairs, func(p ShownPair) bool { return p.Person < known }) {
			return nil, fmt.Errorf("%w: %s has no person of %s; give both files the same ids", ErrOption, test.path,
				table.path)
		}
		for s.Since != nil && len(s.Since) < len(items) {
			s.Since = append(s.Since, s.Since[0])
		}
		tables, s.Random = append(tables, test), test.pairs
	}
	if s.Since != nil && o.Threshold == 0 {
		o.Threshold = 1 // a vote
	}
	if err := like(tables, o.Threshold); err != nil {
		return nil, err
	}
	s.Shown, s.People, s.Items = table.pairs, people.names(), items.names()
	s.thin(cmp.Or(o.People, max(mostShownPairs/max(len(s.Items), 1), 1)))
	return s, nil
}

// openFolder reads the times of the items of a folder that has them, and returns where its ratings are.
func (s *ShownSet) openFolder(folder string, items numbering) (ratings string, err error) {
	statements, path, err := openText(filepath.Join(folder, "statements.csv"))
	if errors.Is(err, fs.ErrNotExist) {
		ratings, path, err := openText(filepath.Join(folder, "ratings.csv"))
		if err != nil {
			return "", fmt.Errorf("%w; give a folder with statements.csv.gz and votes.csv.gz, one with "+
				"ratings.csv.gz, or a file of ratings", err)
		}
		return path, ratings.Close()
	}
	if err != nil {
		return "", err
	}
	defer statements.Close()
	r := csv.NewReader(statements)
	head, err := r.Read()
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	id, when := columnAt(head, "id"), columnAt(head, "time")
	if id < 0 || when < 0 {
		return "", fmt.Errorf("%w: %s has the columns %s; name them id and time", ErrOption, path,
			strings.Join(head, ", "))
	}
	for {
		row, err := r.Read()
		if err == io.EOF {
			return filepath.Join(folder, "votes.csv"), nil
		}
		var since int64
		if err == nil {
			since, err = milliseconds(row[when])
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		if int(items.of(row[id])) == len(s.Since) {
			s.Since = append(s.Since, since)
		}
	}
}

// numbering numbers names in the order in which they come.
type numbering map[string]int32

func (n numbering) of(name string) int32 {
	k, known := n[name]
	if !known {
		k = int32(len(n))
		n[strings.Clone(name)] = k
	}
	return k
}

func (n numbering) names() []string {
	out := make([]string, len(n))
	for name, k := range n {
		out[k] = name
	}
	return out
}

// textFile is a file that is read as text, unpacked where its name ends in .gz.
type textFile struct {
	*bufio.Reader
	file *os.File
}

func (f *textFile) Close() error { return f.file.Close() }

// openText opens a file, compressed or not, and returns its name: ".gz" is added where only that is there.
func openText(path string) (*textFile, string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && !strings.HasSuffix(path, ".gz") {
		if packed, err := os.Open(path + ".gz"); err == nil {
			f, path = packed, path+".gz"
		}
	}
	if f == nil {
		return nil, path, err
	}
	var from io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if from, err = gzip.NewReader(f); err != nil {
			f.Close()
			return nil, path, fmt.Errorf("%s: %w", path, err)
		}
	}
	return &textFile{bufio.NewReaderSize(from, 1<<16), f}, path, nil
}

// ratingTable is the pairs of a file of ratings.
type ratingTable struct {
	path          string
	people, items numbering
	pairs         []ShownPair
	ratings       []float32
	place         map[[2]int32]int32
}

// readRatings reads a file of ratings, in one of the forms of OpenShown. A pair that comes more than once is as its
// last row says.
func readRatings(path string, people, items numbering, timed bool) (*ratingTable, error) {
	f, path, err := openText(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := &ratingTable{path: path, people: people, items: items, place: map[[2]int32]int32{}}
	begin, err := f.Peek(f.Size())
	if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	first, _, _ := strings.Cut(string(begin), "\n")
	cells := cellsOf(first)
	numeric := len(cells) > 0 && !slices.ContainsFunc(cells, func(cell string) bool {
		_, err := strconv.ParseFloat(cell, 64)
		return err != nil
	})
	switch {
	case numeric && len(cells) == 3:
		err = t.readTriples(f)
	case numeric && len(cells) > 3:
		err = t.readMatrix(f, len(cells))
	default:
		err = t.readNamed(f, first, timed)
	}
	if err != nil {
		return nil, fmt.Errorf("%s%w", path, err)
	}
	if len(t.pairs) == 0 {
		return nil, fmt.Errorf("%w: %s has no ratings", ErrOption, path)
	}
	t.place = nil
	return t, nil
}

// cellsOf are the parts of a line between commas, tabs or spaces.
func cellsOf(line string) []string {
	return strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == '\t' || r == ' ' || r == '\r' })
}

// add adds a rating of a row.
func (t *ratingTable) add(row int, person, item, rating string, seconds int64) error {
	x, err := strconv.ParseFloat(strings.TrimSpace(rating), 64)
	if err == nil && (math.IsNaN(x) || math.IsInf(x, 0)) {
		err = fmt.Errorf("%w: the rating is %v", ErrOption, x)
	}
	if err != nil {
		return fmt.Errorf(", row %d: %w", row, err)
	}
	p := ShownPair{Person: t.people.of(person), Item: t.items.of(item), Time: seconds}
	at, again := t.place[[2]int32{p.Person, p.Item}]
	if !again {
		at = int32(len(t.pairs))
		t.place[[2]int32{p.Person, p.Item}] = at
		t.pairs, t.ratings = append(t.pairs, p), append(t.ratings, 0)
	}
	t.pairs[at], t.ratings[at] = p, float32(x)
	return nil
}

// readNamed reads a table with a head.
func (t *ratingTable) readNamed(f io.Reader, first string, timed bool) error {
	r := csv.NewReader(f)
	r.ReuseRecord = true
	if strings.Contains(first, "\t") && !strings.Contains(first, ",") {
		r.Comma = '\t'
	}
	head, err := r.Read()
	if err != nil {
		return fmt.Errorf(": %w", err)
	}
	person, item := columnAt(head, "person", "user", "user_id"), columnAt(head, "statement", "joke", "item", "item_id",
		"video_id")
	rating, when := columnAt(head, "vote", "rating", "watch_ratio"), -1
	if timed {
		when = columnAt(head, "time")
	}
	if person < 0 || item < 0 || rating < 0 || timed && when < 0 {
		return fmt.Errorf(": %w: its columns are %s; name them person, item, rating and, with statements, time",
			ErrOption, strings.Join(head, ", "))
	}
	for row := 2; ; row++ {
		cells, err := r.Read()
		if err == io.EOF {
			return nil
		}
		var seconds int64
		if err == nil && timed {
			seconds, err = milliseconds(cells[when])
		}
		if err != nil {
			return fmt.Errorf(", row %d: %w", row, err)
		}
		if err := t.add(row, cells[person], cells[item], cells[rating], seconds); err != nil {
			return err
		}
	}
}

// readTriples reads a table without a head.
func (t *ratingTable) readTriples(f io.Reader) error {
	return eachLine(f, func(row int, cells []string) error {
		if len(cells) != 3 {
			return fmt.Errorf(", row %d: %w: %d numbers, and not a person, an item and a rating", row, ErrOption,
				len(cells))
		}
		return t.add(row, cells[0], cells[1], cells[2], 0)
	})
}

// readMatrix reads a row for every person.
func (t *ratingTable) readMatrix(f io.Reader, width int) error {
	return eachLine(f, func(row int, cells []string) error {
		if len(cells) != width {
			return fmt.Errorf(", row %d: %w: %d numbers, where the first row has %d", row, ErrOption, len(cells), width)
		}
		person := strconv.Itoa(row)
		t.people.of(person)
		for k, cell := range cells {
			item := strconv.Itoa(k + 1)
			if t.items.of(item); strings.Trim(cell, "0.") == "" {
				continue
			}
			if err := t.add(row, person, item, cell, 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachLine visits lines that are not empty, numbered from 1 on.
func eachLine(f io.Reader, visit func(row int, cells []string) error) error {
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	row := 0
	for lines.Scan() {
		row++
		if cells := cellsOf(lines.Text()); len(cells) > 0 {
			if err := visit(row, cells); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf(", row %d: %w", row+1, err)
	}
	return nil
}

// columnAt is where the first of some columns is that a table has; −1 if it has none.
func columnAt(head []string, names ...string) int {
	for _, name := range names {
		if k := slices.Index(head, name); k >= 0 {
			return k
		}
	}
	return -1
}

// milliseconds reads a time in milliseconds since 1970 as seconds.
func milliseconds(text string) (int64, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	return ms / 1000, err
}

// like says what is liked of all ratings, by one threshold.
func like(tables []*ratingTable, threshold float64) error {
	least := float32(0)
	for _, t := range tables {
		least = min(least, slices.Min(t.ratings))
	}
	liked := func(rating float32) bool {
		if threshold != 0 {
			return float64(rating) >= threshold
		}
		return rating > 0 && (least < 0 || rating >= 3)
	}
	for _, t := range tables {
		likes := 0
		for k, rating := range t.ratings {
			if t.pairs[k].Liked = liked(rating); t.pairs[k].Liked {
				likes++
			}
		}
		if likes == 0 || likes == len(t.pairs) {
			return fmt.Errorf("%w: of %d ratings of %s, from %v to %v, %d are likes; set another threshold", ErrOption,
				len(t.pairs), t.path, slices.Min(t.ratings), slices.Max(t.ratings), likes)
		}
	}
	return nil
}

// thin draws people, where there are more than so many: first of those that are judged, if there are pairs to judge by.
func (s *ShownSet) thin(keep int) {
	if len(s.People) <= keep {
		return
	}
	judged := make([]bool, len(s.People))
	for _, p := range s.Random {
		judged[p.Person] = true
	}
	order := rand.New(rand.NewPCG(1, 0x7415)).Perm(len(s.People))
	slices.SortStableFunc(order, func(a, b int) int {
		if judged[a] == judged[b] {
			return 0
		}
		if judged[a] {
			return -1
		}
		return 1
	})
	drawn := order[:keep]
	slices.Sort(drawn)
	number, people := map[int32]int32{}, []string{}
	for k, i := range drawn {
		number[int32(i)] = int32(k)
		people = append(people, s.People[i])
	}
	of := func(pairs []ShownPair) (kept []ShownPair) {
		for _, p := range pairs {
			if k, is := number[p.Person]; is {
				p.Person = k
				kept = append(kept, p)
			}
		}
		return kept
	}
	s.drawnFrom, s.People, s.Shown = len(s.People), people, of(s.Shown)
	if s.Random != nil {
		s.Random = of(s.Random)
	}
}

// neverSuffix marks sets that are judged by pairs that were never shown.
const neverSuffix = "-never"

// masked returns the people who were shown everything, each with what another person was shown, drawn with a seed: the
// rest was never shown to them, and is known nevertheless. It is nil where fewer than a tenth were shown everything, or
// all.
func (s *ShownSet) masked(seed uint64) *ShownSet {
	of := make([][]ShownPair, len(s.People))
	for _, p := range s.Shown {
		of[p.Person] = append(of[p.Person], p)
	}
	var whole, part []int
	for i, pairs := range of {
		slices.SortFunc(pairs, func(a, b ShownPair) int { return cmp.Compare(a.Item, b.Item) })
		if len(pairs) == len(s.Items) {
			whole = append(whole, i)
		} else if len(pairs) > 0 {
			part = append(part, i)
		}
	}
	if s.Random != nil || len(whole)*10 < len(s.People) || len(part) == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(seed, 0x3a5c))
	out := &ShownSet{Name: s.Name + neverSuffix, Items: s.Items, Since: s.Since}
	for _, i := range whole {
		mask := make([]bool, len(s.Items))
		for _, p := range of[part[rng.IntN(len(part))]] {
			mask[p.Item] = true
		}
		for _, p := range of[i] {
			p.Person = int32(len(out.People))
			if mask[p.Item] {
				out.Shown = append(out.Shown, p)
			} else {
				out.Random = append(out.Random, p)
			}
		}
		out.People = append(out.People, s.People[i])
	}
	return out
}
