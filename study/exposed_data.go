package study

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
}

// ShownPair is an item that was shown to a person, and whether the person liked it.
type ShownPair struct {
	Person, Item int32
	Liked        bool
	Time         int64 // in seconds since 1970; 0 without times
}

// OpenShown reads a folder with votes.csv.gz and statements.csv.gz, as conversations of Polis are
// published, or with ratings.csv.gz: a person, an item and a rating a row. A vote is a like where
// it is 1. A rating is one where it is above 0, or from 3 on where none is below 0. Files need not
// be compressed. If test is not "", pairs are judged by that were shown at random are read from it,
// in the form of ratings.
func OpenShown(folder, test string) (*ShownSet, error) {
	s := &ShownSet{Name: filepath.Base(filepath.Clean(folder))}
	people, items := numbering{}, numbering{}
	statements, err := readTable(filepath.Join(folder, "statements.csv"))
	switch {
	case err == nil:
		id, when := statements.column("id"), statements.column("time")
		for _, row := range statements.rows {
			since, err := milliseconds(row, when)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", statements.path, err)
			}
			items.of(row[id])
			s.Since = append(s.Since, since)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	name := "ratings.csv"
	if s.Since != nil {
		name = "votes.csv"
	}
	table, err := readTable(filepath.Join(folder, name))
	if err != nil {
		return nil, fmt.Errorf("%w; give a folder with statements.csv.gz and votes.csv.gz, or with ratings.csv.gz", err)
	}
	if s.Shown, err = table.pairs(people, items, s.Since != nil); err != nil {
		return nil, err
	}
	if s.Since != nil && len(items) > len(s.Since) {
		return nil, fmt.Errorf("%w: %s has votes on %d statements that statements.csv does not have", ErrOption,
			table.path, len(items)-len(s.Since))
	}
	if test != "" {
		random, err := readTable(test)
		if err != nil {
			return nil, err
		}
		known := len(items)
		if s.Random, err = random.pairs(people, items, false); err != nil {
			return nil, err
		}
		for range items.beyond(known, s.Since != nil) {
			s.Since = append(s.Since, s.Since[0])
		}
	}
	s.People, s.Items = people.names(), items.names()
	return s, nil
}

// numbering numbers names in the order in which they come.
type numbering map[string]int32

func (n numbering) of(name string) int32 {
	k, known := n[name]
	if !known {
		k = int32(len(n))
		n[name] = k
	}
	return k
}

// beyond is how many there are more than known, if that matters.
func (n numbering) beyond(known int, matters bool) int {
	if !matters {
		return 0
	}
	return len(n) - known
}

func (n numbering) names() []string {
	out := make([]string, len(n))
	for name, k := range n {
		out[k] = name
	}
	return out
}

// table is a CSV file with a row of names.
type table struct {
	path string
	head []string
	rows [][]string
}

// readTable reads a file, compressed or not; ".gz" is added where only that is there.
func readTable(path string) (*table, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && !strings.HasSuffix(path, ".gz") {
		f, err = os.Open(path + ".gz")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var from io.Reader = f
	if strings.HasSuffix(f.Name(), ".gz") {
		if from, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	rows, err := csv.NewReader(from).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if len(rows) < 2 {
		return nil, fmt.Errorf("%w: %s has no rows", ErrOption, f.Name())
	}
	return &table{f.Name(), rows[0], rows[1:]}, nil
}

// column is where the first of some columns is that the table has; −1 if it has none.
func (t *table) column(names ...string) int {
	for _, name := range names {
		if k := slices.Index(t.head, name); k >= 0 {
			return k
		}
	}
	return -1
}

// pairs reads shown pairs. A pair that comes more than once is as its last row says.
func (t *table) pairs(people, items numbering, timed bool) ([]ShownPair, error) {
	person, item := t.column("person", "user", "user_id"), t.column("statement", "joke", "item", "item_id")
	rating, when := t.column("vote", "rating"), t.column("time")
	if person < 0 || item < 0 || rating < 0 || timed && when < 0 {
		return nil, fmt.Errorf("%w: %s has the columns %s; name them person, item, rating and, with statements, time",
			ErrOption, t.path, strings.Join(t.head, ", "))
	}
	ratings, least := make([]float64, len(t.rows)), 0.
	for k, row := range t.rows {
		var err error
		if ratings[k], err = strconv.ParseFloat(row[rating], 64); err != nil {
			return nil, fmt.Errorf("%s, row %d: %w", t.path, k+2, err)
		}
		least = min(least, ratings[k])
	}
	var out []ShownPair
	place := map[[2]int32]int{}
	for k, row := range t.rows {
		p := ShownPair{Person: people.of(row[person]), Item: items.of(row[item]),
			Liked: ratings[k] > 0 && (least < 0 || ratings[k] >= 3)}
		if timed {
			var err error
			if p.Time, err = milliseconds(row, when); err != nil {
				return nil, fmt.Errorf("%s, row %d: %w", t.path, k+2, err)
			}
		}
		if at, again := place[[2]int32{p.Person, p.Item}]; again {
			out[at] = p
			continue
		}
		place[[2]int32{p.Person, p.Item}] = len(out)
		out = append(out, p)
	}
	return out, nil
}

// milliseconds reads a time in milliseconds since 1970 as seconds.
func milliseconds(row []string, at int) (int64, error) {
	if at < 0 {
		return 0, fmt.Errorf("%w: there is no column time", ErrOption)
	}
	ms, err := strconv.ParseInt(row[at], 10, 64)
	return ms / 1000, err
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
