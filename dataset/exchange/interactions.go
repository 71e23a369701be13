package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"unseen/dataset"
	"unseen/graph"
	"unseen/hint"
	"unseen/internal/amount"
)

func init() {
	Register(Format{
		Name: "interactions", Summary: "People and items: clicks or ratings, and what was shown",
		Files: []string{"clicks", "impressions", "items", "users"},
		Help: `Clicks are a table with a person and an item per row, and a time, a rating or a
count where there are. People become sources, items targets: nobody is
recommended to anybody. A pair that is there more than once is one link, with
its first time. Of ratings, those from a threshold on are links, and all rated
pairs are stored as shown, with the log ignored: nothing says what else was
shown. Of counts, those from a least count on are links.

Impressions are what people were shown: a person and an item per row, and a
time, a position, a surface, a probability or whether it was clicked. A pair
that was shown more than once is one exposure with a count; its position is the
best, its probability that of being shown at least once. The kind of log says
what this means for other pairs: complete if nothing else was shown to those
people, sample if pairs were drawn whether they were shown or not, offered if a
recommender showed them after the clicks, drawn if they were drawn at random to
be shown then, ignored if learning leaves them out. It is recorded with the
dataset.

Items and users have an id per row, and a field (a category, a segment), a
title, a text or a time. Who has no row has nothing but an id.

Files are CSV, JSON lines (.jsonl) or Parquet (.parquet), and may be compressed
(.gz, .zst). Columns are guessed by their names and the guesses are printed;
flags name them otherwise. Times are dates, or seconds or milliseconds from
1970. Atomic files of RecBole (.inter, .user, .item) and ratings.csv of
MovieLens, with movies.csv beside it, are recognised.`,
		Flags: slices.Concat([]Flag{
			{Name: "clicks", Usage: "`FILE` with a person and an item per row"},
			{Name: "impressions", Usage: "`FILE` with what people were shown"},
			{Name: "items", Usage: "`FILE` with the items' fields, titles and texts"},
			{Name: "users", Usage: "`FILE` with the people's fields"},
			logFlag,
			{Name: "threshold", Usage: "least `RATING` that is a link"},
			{Name: "min-count", Default: "1", Usage: "least `COUNT` of clicks for a link"},
			{Name: "user-prefix", Usage: "`TEXT` before ids that items have too (user:)"},
		}, flagsOf("clicks", interactionRoles), flagsOf("impressions", showingRoles), flagsOf("items", itemRoles),
			flagsOf("users", userRoles), []Flag{
				{Name: "delimiter", Usage: "one `CHARACTER`, or tab (default: guessed)"},
				{Name: "no-header", Switch: true, Usage: "the first line is a record; columns are 1, 2, …"},
			}),
		Import: importInteractions,
	})
}

// What columns of interactions may hold. The surest names come first.
var (
	personNames = []string{"user_id", "userid", "user", "uid", "person", "person_id", "customer_id", "customer",
		"visitor_id", "visitorid", "visitor", "member_id", "reader", "reader_id", "account_id", "client_id",
		"session_id"}
	itemNames = []string{"item_id", "itemid", "item", "iid", "product_id", "productid", "product", "movie_id",
		"movieid",
		"movie", "article_id", "article", "statement", "statement_id", "joke", "joke_id", "video_id", "video",
		"song_id",
		"track_id", "book_id", "isbn", "sku", "asin", "parent_asin", "news_id", "content_id"}
	momentNames = []string{"timestamp", "time", "datetime", "date", "ts", "created_at", "event_time", "clicked_at",
		"shown_at", "viewed_at", "ordered_at", "order_date", "order_time", "purchased_at", "purchase_date",
		"event_timestamp", "event_date"}
	interactionRoles = []role{
		{name: "user", known: personNames}, {name: "item", known: itemNames},
		{name: "time", known: momentNames, ask: true},
		{name: "rating", known: []string{"rating", "stars", "score", "vote"}},
		{name: "count", known: []string{"count", "clicks", "plays", "play_count", "quantity", "qty", "n"}},
	}
	showingRoles = []role{
		{name: "user", known: personNames, flag: "impression-user"},
		{name: "item", known: itemNames, flag: "impression-item"},
		{name: "time", known: momentNames, flag: "impression-time"},
		{name: "position", known: []string{"position", "pos", "rank", "slot", "place"}},
		{name: "surface", known: []string{"surface", "page", "page_type", "placement", "channel", "context",
			"widget"}},
		{name: "probability", known: []string{"probability", "propensity", "prob", "shown"}},
		{name: "clicked", known: []string{"clicked", "click", "is_click", "linked", "label"}},
		{name: "exposed", known: []string{"exposed", "seen", "viewed", "impressed"}},
	}
	itemRoles = []role{
		{name: "id", known: append(slices.Clone(itemNames), "id", "key"), flag: "item-id"},
		{name: "field", known: []string{"field", "category", "class", "genre", "genres", "topic", "department",
			"section",
			"subject", "brand"}, flag: "item-field", ask: true},
		{name: "title", known: []string{"title", "name", "movie_title", "headline", "display_name", "product_name",
			"product_title", "item_name"},
			flag: "item-title"},
		{name: "text", known: []string{"text", "description", "abstract", "summary", "body", "content"},
			flag: "item-text"},
		{name: "time", known: []string{"time", "date", "published", "release_date", "created", "created_at",
			"timestamp",
			"publication_date", "release_year", "year", "added", "added_at", "date_added"},
			flag: "item-time", ask: true},
	}
	userRoles = []role{
		{name: "id", known: append(slices.Clone(personNames), "id", "key"), flag: "user-id"},
		{name: "field", known: []string{"field", "segment", "group", "cluster", "country", "region", "occupation",
			"category", "gender"}, flag: "user-field", ask: true},
		{name: "title", known: []string{"title", "name", "display_name"}, flag: "user-title"},
		{name: "text", known: []string{"text", "description", "about", "bio"}, flag: "user-text"},
		{name: "time", known: []string{"time", "date", "joined", "signup_date", "created", "created_at", "timestamp"},
			flag: "user-time"},
	}
)

// flagsOf are the flags that name columns of a file.
func flagsOf(file string, roles []role) (flags []Flag) {
	for _, r := range roles {
		flags = append(flags, Flag{Name: r.flagName(), Usage: fmt.Sprintf("`COLUMN` of %s with the %s", file, r.name)})
	}
	return flags
}

// interactionSink is a Sink that takes people, items and what happened between them.
type interactionSink interface {
	Sink
	link(source, target int32, seconds int64) error
	showings(count int, log string, parts exposureParts)
	repeat(rows int64)
}

// exposureParts makes exposures, part by part, given which pairs are links.
type exposureParts func(linked func(source, target int32) bool) iter.Seq2[*dataset.Exposures, error]

// importInteractions reads ids first, then what happened between them, and then makes nodes: only then is it known
// which ids people and items share.
func importInteractions(ctx context.Context, o Options, s Sink) error {
	sink, able := s.(interactionSink)
	if !able {
		return failAt(Place{}, fmt.Errorf("%w: this sink takes no interactions", ErrUsage), "use Import")
	}
	x, err := newInteractions(o, sink)
	if err != nil {
		return err
	}
	// Tens of millions of rows are alive at once: garbage of the same size beside them would double the memory.
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	for _, ids := range []struct {
		file string
		of   *interner
		as   []role
	}{{x.users, x.people, userRoles}, {x.goods, x.items, itemRoles}} {
		if ids.file == "" {
			continue
		}
		q := records{ids.file, o, silent{sink}, ids.as, []string{"id"}}
		if err := q.each(ctx, func(r record) error {
			if id := r.text(0); usableID(id) {
				if _, err := ids.of.add(id); err != nil {
					return withPlace(r.place(), err)
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if err := x.readClicks(ctx); err != nil {
		return err
	}
	if err := x.readShowings(ctx); err != nil {
		return err
	}
	if err := x.addNodes(ctx); err != nil {
		return err
	}
	return x.join(ctx)
}

// usableID reports whether an id can be that of a person or an item.
func usableID(id string) bool { return id != "" && len(id) <= mostBytes["id"] && utf8.ValidString(id) }

// withPlace gives a place to an error of an interner, which knows no places.
func withPlace(at Place, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{at, e.Err}
	}
	return failAt(at, err, "")
}

// silent is a sink for a first look at a file: what is wrong or guessed is said when it is read.
type silent struct{ Sink }

func (silent) Note(string, ...any)               {}
func (silent) Reject(Place, error, []byte) error { return nil }

// interactions is one import.
type interactions struct {
	sink                        interactionSink
	options                     Options
	clicks, shown, goods, users string // files, "" where there is none
	people, items               *interner
	clicked, showings           pairTable
	begun                       bool // the first click was read
	rated, counted, withShown   bool
	ratings                     RatingScale
	threshold, least            float64
	surfaces                    *interner
	ids                         [2]string // the person and the item of the record that is being read
	personNode, itemNode        []int32   // by number
	lists                       int       // items whose field is a list
}

func newInteractions(o Options, s interactionSink) (*interactions, error) {
	room := newNameRoom(o)
	x := &interactions{sink: s, options: o, clicks: o.Flag("clicks"), shown: o.Flag("impressions"),
		goods: o.Flag("items"), users: o.Flag("users"), people: newInterner(), items: newInterner(),
		surfaces: newInterner()}
	if x.clicks == "" && x.shown == "" {
		return nil, failAt(Place{}, fmt.Errorf("%w: no clicks", ErrUsage),
			"set %v to a file with a person and an item "+
				"per row", hint.Setting("clicks"))
	}
	x.people.room, x.items.room = &room, &room
	x.beside()
	var err error
	x.threshold, x.least, err = linkRule(o)
	return x, err
}

// linkRule returns from which rating and from which count of clicks on a pair is a link; NaN of a rating that is not
// given.
func linkRule(o Options) (threshold, least float64, err error) {
	threshold = math.NaN()
	for _, f := range []struct {
		flag string
		into *float64
	}{{"threshold", &threshold}, {"min-count", &least}} {
		text := o.Flag(f.flag)
		if text == "" {
			continue
		}
		if *f.into, err = strconv.ParseFloat(text, 64); err != nil || math.IsNaN(*f.into) {
			return 0, 0, failAt(Place{}, fmt.Errorf("%w: %s is %.40q", ErrUsage, f.flag, text), "give a number")
		}
	}
	return threshold, least, nil
}

// beside takes the files that usually lie beside the clicks.
func (x *interactions) beside() {
	goods, users := Beside(x.clicks)
	for _, f := range []struct {
		into        *string
		found, what string
	}{{&x.goods, goods, "items"}, {&x.users, users, "users"}} {
		if *f.into == "" && f.found != "" {
			*f.into = f.found
			x.sink.Note("%s", UsedBeside(f.found, f.what, x.clicks))
		}
	}
}

// Beside returns the files of items and of people that usually lie beside clicks, those of RecBole and of MovieLens;
// "" where there are none.
func Beside(clicks string) (items, users string) {
	there := func(path string) string {
		if _, err := os.Stat(path); err != nil {
			return ""
		}
		return path
	}
	folder, base := filepath.Split(clicks)
	if stem, atomic := strings.CutSuffix(clicks, ".inter"); atomic {
		return there(stem + ".item"), there(stem + ".user")
	}
	if stem, _ := stemOf(base); stem == "ratings" {
		return there(filepath.Join(folder, "movies.csv")), ""
	}
	return "", ""
}

// UsedBeside says that a file that lies beside clicks is used.
func UsedBeside(path, what, clicks string) string {
	return fmt.Sprintf("%s: using it for %s, since it lies beside %s.", path, what, filepath.Base(clicks))
}

// ends reads the person, the item and the time of a record; false where the record was rejected. Numbers of the person
// and the item come when the row is stored.
func (x *interactions) ends(r record) (row pairRow, ok bool, err error) {
	_, raw := r.(*parquetRecord)
	valid := !raw // readers of text have looked at every byte
	x.ids = [2]string{r.text(0), r.text(1)}
	for role, name := range [2]string{"user", "item"} {
		switch id := x.ids[role]; {
		case id == "":
			return row, false, x.sink.Reject(r.place(), hint.Wrap(fmt.Errorf("%w: the %s is empty", ErrFormat, name),
				"give every row a person and an item"), r.raw())
		case len(id) > mostBytes["id"]:
			return row, false, x.sink.Reject(r.place(), tooLong(name, len(id), mostBytes["id"]),
				[]byte(id[:beginning]))
		case !valid && !utf8.ValidString(id):
			return row, false, x.sink.Reject(r.place(), withEncodingHint(fmt.Errorf("%w: the %s", ErrEncoding, name)),
				r.raw())
		}
	}
	if row.seconds, err = r.seconds(2); err != nil {
		return row, false, x.sink.Reject(r.place(), hint.Wrap(plainReason(err), secondsHint), r.raw())
	}
	return row, true, nil
}

// store reads a table: each makes a row of a record, which is then stored with the numbers of its person and item. Both
// take about as long, so that one goroutine reads while another stores.
func (x *interactions) store(ctx context.Context, q records, t *pairTable,
	each func(r record) (row pairRow, ok bool, err error)) error {
	full, empty, stored := make(chan *rowBatch, 1), make(chan *rowBatch, 3), make(chan error, 1)
	for range 3 {
		empty <- &rowBatch{}
	}
	go func() {
		var failed error
		for b := range full {
			if failed == nil {
				failed = x.storeBatch(b, t)
			}
			b.text, b.rows = b.text[:0], b.rows[:0]
			empty <- b
		}
		stored <- failed
	}()
	b := <-empty
	err := q.each(ctx, func(r record) error {
		row, ok, err := each(r)
		if err != nil || !ok {
			return err
		}
		if b.add(x.ids[0], x.ids[1], row); len(b.rows) == rowsPerBatch {
			full <- b
			b = <-empty
		}
		return nil
	})
	full <- b
	close(full)
	if failed := <-stored; err == nil && failed != nil {
		return withPlace(Place{File: q.path}, failed)
	}
	return err
}

// rowBatch is rows and the ids of their persons and items, one after the other.
type rowBatch struct {
	text []byte
	rows []batchRow
}

type batchRow struct {
	pairRow
	middle, end int // of the two ids in text
}

const rowsPerBatch = 1 << 12

func (b *rowBatch) add(person, item string, row pairRow) {
	b.text = append(b.text, person...)
	middle := len(b.text)
	b.text = append(b.text, item...)
	b.rows = append(b.rows, batchRow{row, middle, len(b.text)})
}

func (x *interactions) storeBatch(b *rowBatch, t *pairTable) (err error) {
	start := 0
	for _, row := range b.rows {
		if row.person, err = x.people.add(alias(b.text[start:row.middle])); err != nil {
			return err
		}
		if row.item, err = x.items.add(alias(b.text[row.middle:row.end])); err != nil {
			return err
		}
		start = row.end
		if row.clicked {
			if err := x.clicked.add(pairRow{person: row.person, item: row.item, seconds: row.seconds,
				value: float32(math.NaN())}); err != nil {
				return err
			}
		}
		if err := t.add(row.pairRow); err != nil {
			return err
		}
	}
	return nil
}

func (x *interactions) readClicks(ctx context.Context) error {
	if x.clicks == "" {
		return nil
	}
	t := &x.clicked
	if err := x.store(ctx, x.clickRecords(), t, x.clickRow); err != nil {
		return err
	}
	if t.rows == 0 && x.shown == "" {
		return NoClicks(x.clicks)
	}
	return x.choose()
}

// NoClicks is the error of a table of clicks that has none.
func NoClicks(file string) error {
	return failAt(Place{File: file}, fmt.Errorf("%w: no clicks", ErrFormat),
		"check that the file is not empty, and that the settings name its columns")
}

// clickRecords are the records of the clicks.
func (x *interactions) clickRecords() records {
	return records{x.clicks, x.options, x.sink, interactionRoles, []string{"user", "item"}}
}

// clickRow reads a click; false where the record was rejected. The first record says which columns there are.
func (x *interactions) clickRow(r record) (pairRow, bool, error) {
	t := &x.clicked
	if !x.begun {
		x.begun, x.rated, x.counted = true, r.has(3), r.has(4) && !r.has(3)
		t.timed, t.valued = r.has(2), x.rated || x.counted
	}
	row, ok, err := x.ends(r)
	if row.value = float32(math.NaN()); err != nil || !ok || !t.valued {
		return row, ok, err
	}
	role := 3
	if x.counted {
		role = 4
	}
	value, err := number(r, role, math.NaN())
	if err != nil {
		return row, false, x.sink.Reject(r.place(), err, r.raw())
	}
	if row.value = float32(value); x.rated {
		x.ratings.add(value)
	}
	return row, true, nil
}

// RatingScale is what is known of the scale of ratings.
type RatingScale struct {
	Count     int
	Low, High float64
	Halves    bool // all are halves from .5 to 5
	Signs     bool // all are −1, 0 or 1
}

func (s *RatingScale) add(x float64) {
	if !math.IsNaN(x) {
		s.Join(RatingScale{1, x, x, x >= .5 && x <= 5 && 2*x == math.Trunc(2*x), x == -1 || x == 0 || x == 1})
	}
}

// Join adds the ratings of another part of a table.
func (s *RatingScale) Join(other RatingScale) {
	if s.Count == 0 || other.Count == 0 {
		if other.Count > 0 {
			*s = other
		}
		return
	}
	s.Count += other.Count
	s.Low, s.High = min(s.Low, other.Low), max(s.High, other.High)
	s.Signs, s.Halves = s.Signs && other.Signs, s.Halves && other.Halves
}

// Threshold returns the least rating that is a link where the scale says it; else the error asks for one.
func (s RatingScale) Threshold(file string) (float64, error) {
	switch {
	case s.Signs:
		return 1, nil
	case s.Halves && s.High >= 4:
		return 4, nil
	}
	return 0, failAt(Place{File: file}, fmt.Errorf("%w: ratings from %v to %v, and nothing says which are links",
		ErrUsage, s.Low, s.High), "set %v to the least rating that is a link", hint.Setting("threshold"))
}

// choose decides from which rating on a pair is a link: as given, or where the scale says it.
func (x *interactions) choose() error {
	if !x.rated || !math.IsNaN(x.threshold) {
		return nil
	}
	if x.ratings.Count == 0 {
		x.rated = false // the column is empty
		return nil
	}
	var err error
	if x.threshold, err = x.ratings.Threshold(x.clicks); err != nil {
		return err
	}
	x.sink.Note("%s: ratings from %v to %v; from %v on they are links. Set %v to change that.", x.clicks,
		x.ratings.Low, x.ratings.High, x.threshold, hint.Setting("threshold"))
	return nil
}

func (x *interactions) readShowings(ctx context.Context) error {
	if x.shown == "" {
		return nil
	}
	t, begun := &x.showings, false
	err := x.store(ctx, x.showingRecords(), t, func(r record) (pairRow, bool, error) {
		if !begun {
			begun = true
			t.timed, t.placed, t.surfaced, t.valued = r.has(2), r.has(3), r.has(4), r.has(5)
			if x.clicks == "" {
				x.clicked.timed = t.timed
			}
		}
		return x.showingRow(r)
	})
	if x.withShown = t.rows > 0; err == nil && !x.withShown {
		x.sink.Note("%s: it has no impressions, so that nothing is known of what was shown.", x.shown)
	}
	return err
}

// showingRecords are the records of the impressions.
func (x *interactions) showingRecords() records {
	return records{x.shown, x.options, x.sink, showingRoles, []string{"user", "item"}}
}

// showingRow reads an impression; false where the record was rejected.
func (x *interactions) showingRow(r record) (pairRow, bool, error) {
	row, ok, err := x.ends(r)
	if err != nil || !ok {
		return row, ok, err
	}
	if err := x.showing(r, &row); err != nil {
		return row, false, x.sink.Reject(r.place(), err, r.raw())
	}
	return row, true, nil
}

// showing reads what a record says of how a pair was shown, and whether it was clicked.
func (x *interactions) showing(r record, row *pairRow) (err error) {
	if row.flag = true; r.has(7) && r.text(7) != "" {
		if row.flag, err = parseBool(r.text(7)); err != nil {
			return hint.Wrap(err, "write true or false")
		}
	}
	if r.has(6) && r.text(6) != "" {
		if row.clicked, err = parseBool(r.text(6)); err != nil {
			return hint.Wrap(err, "write true or false")
		}
	}
	position, err := number(r, 3, 0)
	if err != nil || position != math.Trunc(position) || position < 0 {
		return cmp.Or(err, hint.Wrap(fmt.Errorf("%w: %v is no position", ErrFormat, position),
			"count places from 1"))
	}
	row.position = int32(min(position, math.MaxUint16))
	if r.has(4) {
		surface, err := x.surfaces.add(r.text(4))
		if err != nil || surface > math.MaxUint16 {
			return hint.Wrap(fmt.Errorf("%w: more than %d surfaces", graph.ErrTooLarge, math.MaxUint16),
				"set %v to another column, or to nothing", hint.Setting("surface"))
		}
		row.surface = uint16(surface)
	}
	p, err := number(r, 5, math.NaN())
	if err == nil && (p < 0 || p > 1) {
		err = hint.Wrap(fmt.Errorf("%w: shown with probability %v", ErrFormat, p), "give a probability from 0 to 1")
	}
	row.value = float32(p)
	switch { // what is possible stays possible, and what is not certain uncertain
	case p > 0 && row.value == 0:
		row.value = math.SmallestNonzeroFloat32
	case p < 1 && row.value == 1:
		row.value = math.Nextafter32(1, 0)
	}
	return err
}

// addNodes adds the people and then the items: first those with a record, in the order of their file.
func (x *interactions) addNodes(ctx context.Context) error {
	prefix, shared := "", 0
	for k := range int32(min(x.people.len(), x.items.len())) {
		few, many := x.people, x.items
		if few.len() > many.len() {
			few, many = many, few
		}
		if many.find(few.id(k)) >= 0 {
			shared++
		}
	}
	if shared > 0 {
		if prefix = graph.PersonPrefix; x.options.Given("user-prefix") {
			prefix = x.options.Flag("user-prefix")
		}
		x.sink.Note("%s both a person's and an item's: people are called %q and their id.",
			amount.OneOrMore(shared, "id is", "ids are"), prefix)
		for k := range int32(x.people.len()) {
			if id := prefix + x.people.id(k); x.items.find(id) >= 0 {
				return SharedID(id)
			}
		}
	}
	var err error
	if x.personNode, err = x.addSide(ctx, x.users, userRoles, x.people, prefix, graph.SourceOnly); err != nil {
		return err
	}
	x.itemNode, err = x.addSide(ctx, x.goods, itemRoles, x.items, "", graph.TargetOnly)
	if x.lists > 0 {
		x.sink.Note("%s: %s a list with bars as field: using the first of each.", x.goods,
			amount.OneOrMore(x.lists, "item has", "items have"))
	}
	return err
}

// addSide adds the people or the items, and returns the node of each number.
func (x *interactions) addSide(ctx context.Context, file string, roles []role, of *interner, prefix string,
	side graph.Role) ([]int32, error) {
	node := slices.Repeat([]int32{-1}, of.len())
	if file != "" {
		q := records{file, x.options, x.sink, roles, []string{"id"}}
		if err := q.each(ctx, func(r record) error {
			n, err := x.nodeRecord(r, side)
			if err != nil {
				return x.sink.Reject(r.place(), err, r.raw())
			}
			if n.ID != "" {
				n.ID = prefix + n.ID
			}
			i, err := x.sink.Node(n, r.place())
			if i >= 0 && err == nil {
				node[of.find(n.ID[len(prefix):])] = i
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	bare := 0
	for k := range node {
		if node[k] >= 0 {
			continue
		}
		bare++
		var err error
		if node[k], err = x.sink.Node(NodeRecord{ID: prefix + of.id(int32(k)), Role: side}, Place{}); err != nil {
			return nil, err
		}
	}
	if file != "" && bare > 0 {
		x.sink.Note("%s: %s no record there: nothing but the id is known.", file,
			amount.OneOrMore(bare, "id of the clicks or impressions has", "ids of the clicks or impressions have"))
	}
	return node, nil
}

// nodeRecord reads a person or an item.
func (x *interactions) nodeRecord(r record, side graph.Role) (NodeRecord, error) {
	when, err := nodeTime(r, 4)
	if err != nil {
		return NodeRecord{}, hint.Wrap(plainReason(err), timeHint)
	}
	return NodeRecord{ID: r.text(0), Field: x.field(r.text(1), side), Title: r.text(2), Text: r.text(3), Role: side,
		Time: when}, nil
}

// field is the first field of a list with bars between them, as in MovieLens: a field is one group of items, and whole
// lists would be hundreds of groups of hardly any.
func (x *interactions) field(text string, side graph.Role) string {
	first, _, list := strings.Cut(text, "|")
	switch {
	case side != graph.TargetOnly:
		return text
	case first == "(no genres listed)":
		return ""
	case list:
		x.lists++
	}
	return first
}
