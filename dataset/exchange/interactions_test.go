package exchange

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"unseen/dataset"
	"unseen/graph"
)

// interacted imports files: flags name those that the map has by the name of their flag, as clicks.csv.
func interacted(t *testing.T, files map[string]string, flags map[string]string) (*dataset.Dataset, *Report, error) {
	t.Helper()
	folder := t.TempDir()
	o := Options{Flags: map[string]string{}}
	for name, text := range files {
		path := filepath.Join(folder, name)
		must(t, os.WriteFile(path, []byte(text), 0o666))
		if stem, _ := stemOf(name); slices.Contains([]string{"clicks", "impressions", "items", "users"}, stem) {
			o.Flags[stem] = path
		}
	}
	for name, value := range flags {
		o.Flags[name] = strings.ReplaceAll(value, "FOLDER", folder)
	}
	dir := filepath.Join(t.TempDir(), "shop")
	r, err := Import(background, "interactions", dir, o)
	if err != nil {
		return nil, nil, err
	}
	return open(t, dir), r, nil
}

// story of a dataset: a line per link, and one per exposure.
func pairsOf(t *testing.T, d *dataset.Dataset) string {
	t.Helper()
	g := d.Graph()
	var b strings.Builder
	for i := range int32(g.Len()) {
		for k, j := range g.Out(i) {
			fmt.Fprintf(&b, "%s>%s", g.ID(i), g.ID(j))
			if times := g.OutTimes(i); times != nil && times[k] != graph.NoTime {
				fmt.Fprintf(&b, " @%d", times[k])
			}
			b.WriteString("\n")
		}
	}
	e, err := d.Exposures(background)
	must(t, err)
	if e == nil {
		return b.String()
	}
	for k := range e.Source {
		fmt.Fprintf(&b, "%s:%s shown %t linked %t", g.ID(e.Source[k]), g.ID(e.Target[k]), e.Exposed[k], e.Linked[k])
		if e.Count != nil && e.Count[k] != 1 {
			fmt.Fprintf(&b, " count %d", e.Count[k])
		}
		if e.Position != nil && e.Position[k] > 0 {
			fmt.Fprintf(&b, " position %d", e.Position[k])
		}
		if e.Surface != nil && e.Surfaces[e.Surface[k]] != "" {
			fmt.Fprintf(&b, " on %q", e.Surfaces[e.Surface[k]])
		}
		if e.Shown != nil && !math.IsNaN(e.Shown[k]) {
			fmt.Fprintf(&b, " probability %.2f", e.Shown[k])
		}
		if e.Time != nil && e.Time[k] != graph.NoTime {
			fmt.Fprintf(&b, " @%d", e.Time[k])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// notesOf are all notes of an import, as settings name themselves.
func notesOf(r *Report) string {
	var b strings.Builder
	for _, n := range r.Notes {
		b.WriteString(n.String() + "\n")
	}
	return b.String()
}

const (
	clicksCSV = "user_id,item_id,timestamp\nanna,book,1700000100\nanna,book,1700000050\nbob,lamp,1700000300\n" +
		"bob,sofa,\n"
	showingsCSV = "user,item,time,position,page,probability\n" +
		"anna,book,1700000000,3,home,.5\nanna,book,1700000010,2,mail,.5\nanna,lamp,1700000020,1,home,\n" +
		"bob,lamp,1700000400,9,,.1\n"
	joined = "anna>book @1700000050\nbob>sofa\nbob>lamp @1700000300\n" +
		"anna:book shown true linked true count 2 position 2 on \"mail\" probability 0.75 @1700000000\n" +
		"anna:lamp shown true linked false position 1 on \"home\" @1700000020\n" +
		"bob:lamp shown true linked true position 9 probability 0.10 @1700000400\n"
)

// People become sources and items targets; repeated clicks and showings are one pair each; what is odd is counted.
func TestInteractions(t *testing.T) {
	t.Parallel()
	d, r, err := interacted(t, map[string]string{"clicks.csv": clicksCSV, "impressions.csv": showingsCSV,
		"items.csv": "item_id,category,title,text,created\nsofa,none,Sofa,soft,2023-01-02\nbook,novel,Emma,,1815\n" +
			"rug,N/A,Rug,,1700000000\n",
		"users.csv": "user_id,segment\nbob,pro\ncarl,unknown\n"}, nil)
	must(t, err)
	want := "bob|pro||| → sofa lamp\ncarl|unknown||| →\nanna|unknown||| → book\nsofa|unknown|Sofa|2023-01-02|soft →\n" +
		"book|novel|Emma|1815-01-01| →\nrug|unknown|Rug|2023-11-14| →\nlamp|unknown||| →\n"
	if got := rowsOf(t, d); got != want {
		t.Errorf("nodes are\n%swant\n%s", got, want)
	}
	g := d.Graph()
	if !slices.Equal(g.Sources(), []int32{0, 1, 2}) || !slices.Equal(g.Targets(), []int32{3, 4, 5, 6}) {
		t.Errorf("%v to %v", g.Sources(), g.Targets())
	}
	lines := func(text string) []string { return slices.Sorted(strings.Lines(text)) }
	if got := pairsOf(t, d); !slices.Equal(lines(got), lines(joined)) {
		t.Errorf("pairs are\n%swant\n%s", got, joined)
	}
	if r.Repeated != 1 || r.Links != 3 || r.Exposures != 3 || r.Rejected != 0 {
		t.Errorf("%+v", r)
	}
	for _, note := range []string{"1 link is of a pair that the impressions never show",
		"1 pair was shown only after the click",
		"1 person has no link", "1 item has no link", "3 nodes have a field such as none or n/a",
		"`timestamp` as time", "`page` as surface", "`segment` as field", "`created` as time",
		"users.csv: 1 id of the clicks", "items.csv: 1 id of the clicks"} {
		if !strings.Contains(notesOf(r), note) {
			t.Errorf("notes do not say %q:\n%s", note, notesOf(r))
		}
	}
}

// The three formats, packed or not, and columns of any name hold the same.
//
// Long because it is a table of files.
func TestInteractionFormats(t *testing.T) {
	t.Parallel()
	jsonl := func(csv string) string {
		var b strings.Builder
		rows := strings.Split(strings.TrimSpace(csv), "\n")
		keys := strings.Split(rows[0], ",")
		for _, row := range rows[1:] {
			b.WriteString("{")
			for k, value := range strings.Split(row, ",") {
				if k > 0 {
					b.WriteString(", ")
				}
				fmt.Fprintf(&b, "%q: %q", keys[k], value)
			}
			b.WriteString("}\n")
		}
		return b.String()
	}
	type click struct {
		User int64     `parquet:"uid"`
		Item string    `parquet:"iid,dict"`
		Time time.Time `parquet:"when,optional,timestamp(millisecond)"`
	}
	table := filepath.Join(t.TempDir(), "c.parquet")
	when := func(s int64) time.Time { return time.Unix(s, 0) }
	must(t, parquet.WriteFile(table, []click{{1, "book", when(1700000100)}, {1, "book", when(1700000050)},
		{2, "lamp", when(1700000300)}, {2, "sofa", time.Time{}}}))
	links := "anna>book @1700000050\nbob>lamp @1700000300\nbob>sofa\n"
	for name, c := range map[string]struct {
		files, flags map[string]string
		want         string
	}{
		"csv":   {map[string]string{"clicks.csv": clicksCSV}, nil, links},
		"jsonl": {map[string]string{"clicks.jsonl": jsonl(clicksCSV)}, nil, links},
		"packed": {map[string]string{"clicks.tsv.gz": string(packed(t,
			[]byte(strings.ReplaceAll(clicksCSV, ",", "\t"))))}, nil, links},
		"dates": {map[string]string{"clicks.csv": "user,item,date\nanna,book,2023-11-14T22:14:10Z\nbob,lamp," +
			"2023-11-14 22:18:20.5\nbob,sofa,\n"}, nil, links},
		"milliseconds": {map[string]string{"clicks.csv": "user,item,ts\nanna,book,1700000050123\nbob,lamp," +
			"1700000300000.0\nbob,sofa,\n"}, nil, links},
		"named": {map[string]string{"clicks.csv": "a;b;c;user;item\n1;anna;book;x;1700000050\n" +
			"1;bob;lamp;y;1700000300\n1;bob;sofa;z;\n"},
			map[string]string{"user": "b", "item": "c", "time": "item"}, links},
		"spellings": {map[string]string{"clicks.csv": "User ID,item-id,orderedAt\nanna,book,1700000050\n" +
			"bob,lamp,1700000300\nbob,sofa,\n"}, nil, links},
		"no header": {map[string]string{"clicks.csv": "anna,book,1700000050\nbob,lamp,1700000300\nbob,sofa,\n"},
			map[string]string{"no-header": "true", "user": "1", "item": "2", "time": "3"}, links},
		"parquet": {nil, map[string]string{"clicks": table, "time": "when"},
			"1>book @1700000050\n2>lamp @1700000300\n2>sofa\n"},
		"atomic": {map[string]string{"ml.inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\n" +
			"anna\tbook\t5\t1700000050\nanna\tlamp\t3\t7\n", "ml.item": "item_id:token\tclass:token_seq\nbook\tnovel\n",
			"ml.user": "user_id:token\tage:token\nanna\t33\n"}, map[string]string{"clicks": "FOLDER/ml.inter"},
			"anna>book @1700000050\nanna:book shown true linked true @1700000050\nanna:lamp shown true linked " +
				"false @7\n"},
		"MovieLens": {map[string]string{
			"ratings.csv": "userId,movieId,rating,timestamp\n1,1,4.0,1700000050\n1,2,3.5,9\n",
			"movies.csv":  "movieId,title,genres\n1,Toy Story (1995),Adventure|Animation\n2,X,(no genres listed)\n"},
			map[string]string{"clicks": "FOLDER/ratings.csv"},
			"user:1>1 @1700000050\nuser:1:1 shown true linked true @1700000050\nuser:1:2 shown true linked false @9\n"},
		"clicks among impressions": {map[string]string{"impressions.csv": "user,item,clicked,exposed\na,x,1,1\n" +
			"a,y,0,1\na,z,0,0\n"}, nil, "a>x\na:x shown true linked true\na:y shown true linked false\n" +
			"a:z shown false linked false count 0\n"},
		"columns of impressions": {map[string]string{"clicks.csv": "user,item\na,x\n",
			"impressions.csv": "w,h,o,p,q,r,t\n" +
				"a,x,3,mail,.5,0,9\n"}, map[string]string{"impression-user": "w", "impression-item": "h",
			"position": "o",
			"surface":  "p", "probability": "q", "clicked": "r", "impression-time": "t"},
			"a>x\na:x shown true linked true position 3 on \"mail\" probability 0.50 @9\n"},
		"votes": {map[string]string{"clicks.csv": "person,statement,vote\na,x,1\na,y,-1\nb,x,0\nb,x,1\n"}, nil,
			"a>x\nb>x\na:x shown true linked true\na:y shown true linked false\nb:x shown true linked true\n"},
		"threshold": {map[string]string{"clicks.csv": "user,item,rating\na,x,7.5\na,y,-3\n"},
			map[string]string{"threshold": "5"}, "a>x\na:x shown true linked true\na:y shown true linked false\n"},
		"counts": {map[string]string{"clicks.csv": "user,item,plays\na,x,2\na,y,1\na,x,1\nb,y,\n"},
			map[string]string{"min-count": "3"}, "a>x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, r, err := interacted(t, c.files, c.flags)
			must(t, err)
			if got := pairsOf(t, d); got != c.want {
				t.Errorf("pairs are\n%swant\n%s%s", got, c.want, notesOf(r))
			}
		})
	}
}

// Every oddity has a clear word, and nothing is lost.
func TestOddInteractions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files, flags         map[string]string
		links, people, items int
		note                 string
	}{
		"an id of both": {map[string]string{"clicks.csv": "user,item\n7,7\n7,8\n9,7\n"}, nil, 3, 2, 2,
			`1 id is both a person's and an item's: people are called "user:"`},
		"one person": {map[string]string{"clicks.csv": "user,item\na,x\na,y\n"}, nil, 2, 1, 2, "only one person"},
		"all clicked": {map[string]string{"clicks.csv": "user,item\na,x\nb,y\n",
			"impressions.csv": "user,item\na,x\nb,y\n"}, nil, 2, 2, 2, "Every pair that was shown is a link"},
		"nobody clicked that": {map[string]string{"clicks.csv": "user,item\na,x\n",
			"impressions.csv": "user,item\nb,y\nc,y\n"}, nil, 1, 3, 2, "2 people have no link"},
		"an item without a click": {map[string]string{"clicks.csv": "user,item\na,x\n", "items.csv": "id\nz\nx\n"}, nil,
			1, 1, 2, "1 item has no link"},
		"a time that is missed": {map[string]string{"clicks.csv": "user,item,wann\na,x,2024\n"}, nil, 1, 1, 1,
			"no column looks like the time; unused columns: wann."},
		"a pair without a rating": {map[string]string{"clicks.csv": "user,item,rating\na,x,5\na,y,3\nb,x,\n"}, nil, 1,
			2, 2, "1 pair has no rating: shown, and no link"},
		"impressions that hold none": {map[string]string{"clicks.csv": "user,item\na,x\nb,x\n",
			"impressions.csv": "user,item\n"}, nil, 2, 2, 1, "it has no impressions"},
		"a rating column without ratings": {map[string]string{"clicks.csv": "user,item,rating\na,x,\nb,x,\n"}, nil, 2,
			2,
			1, "using"},
	} {
		d, r, err := interacted(t, c.files, c.flags)
		must(t, err)
		g := d.Graph()
		if g.LinkCount() != c.links || len(g.Sources()) != c.people || len(g.Targets()) != c.items ||
			c.note != "using" && !strings.Contains(notesOf(r), c.note) {
			t.Errorf("%s: %d links of %d people and %d items:\n%s", name, g.LinkCount(), len(g.Sources()),
				len(g.Targets()), notesOf(r))
		}
	}
	for name, c := range map[string]struct {
		files, flags map[string]string
		kind         error
		says         string
	}{
		"no files":     {nil, nil, ErrUsage, "no clicks"},
		"empty":        {map[string]string{"clicks.csv": "user,item\n"}, nil, ErrFormat, "no clicks"},
		"no such file": {nil, map[string]string{"clicks": "FOLDER/x.csv"}, os.ErrNotExist, "x.csv"},
		"a spreadsheet": {map[string]string{"clicks.XLSX": "PK"}, map[string]string{"clicks": "FOLDER/clicks.XLSX"},
			ErrUsage, "save it as CSV"},
		"no person": {map[string]string{"clicks.csv": "user,item\n,x\n"}, nil, ErrFormat,
			"line 2: bad record: the user is empty; give every row a person and an item; or set lenient to skip such"},
		"no column": {map[string]string{"clicks.csv": "who,what\na,x\n"}, nil, ErrUsage, "looks like the user"},
		"no key":    {map[string]string{"clicks.jsonl": `{"user": "a"}`}, nil, ErrUsage, "looks like the item"},
		"no such column": {map[string]string{"clicks.csv": "user,item\na,x\n"}, map[string]string{"rating": "r"},
			ErrUsage, `no column "r"`},
		"a bad time":       {map[string]string{"clicks.csv": "user,item,time\na,x,soon\n"}, nil, ErrFormat, "soon"},
		"a bad rating":     {map[string]string{"clicks.csv": "user,item,rating\na,x,good\n"}, nil, ErrFormat, "good"},
		"an unknown scale": {map[string]string{"clicks.csv": "user,item,rating\na,x,77\n"}, nil, ErrUsage, "77"},
		"a bad threshold": {map[string]string{"clicks.csv": "user,item\na,x\n"}, map[string]string{"threshold": "x"},
			ErrUsage, "threshold"},
		"a bad probability": {map[string]string{"impressions.csv": "user,item,clicked,probability\na,x,1,2\n"}, nil,
			ErrFormat, "probability 2"},
		"a bad position": {map[string]string{"impressions.csv": "user,item,clicked,position\na,x,1,-2\n"}, nil,
			ErrFormat, "position"},
		"a bad flag": {map[string]string{"impressions.csv": "user,item,clicked\na,x,maybe\n"}, nil, ErrFormat, "maybe"},
		"a prefix that is taken": {map[string]string{"clicks.csv": "user,item\n7,7\n7,user:7\n"}, nil, ErrUsage,
			"user:7"},
		"two records of an item": {map[string]string{"clicks.csv": "user,item\na,x\n", "items.csv": "id\nx\nx\n"}, nil,
			ErrDuplicateNode, `"x"`},
	} {
		_, _, err := interacted(t, c.files, c.flags)
		if text := fmt.Sprint(err); !errors.Is(err, c.kind) || !strings.Contains(text, c.says) ||
			strings.Count(text, ", line ") > 1 {
			t.Errorf("%s: %v; want %v that says %q", name, err, c.kind, c.says)
		}
	}
}

// A probability stays what it is, however small, and more than one showing cannot make it 0 or 1.
func TestTinyProbabilities(t *testing.T) {
	t.Parallel()
	d, _, err := interacted(t, map[string]string{"clicks.csv": "user,item\na,x\n",
		"impressions.csv": "user,item,probability\na,x,1e-30\na,y,1e-300\na,z,0.9999999999\nb,x,1e-30\nb,x,1e-30\n" +
			"b,y,0.25\nb,y,1\nb,z,0\n"}, nil)
	must(t, err)
	e, err := d.Exposures(background)
	must(t, err)
	got := map[string]float64{}
	for k, i := range e.Source {
		got[d.Graph().ID(i)+d.Graph().ID(e.Target[k])] = e.Shown[k]
	}
	if !(got["ax"] > .999e-30 && got["ax"] < 1.001e-30 && got["bx"] > 1.999e-30 && got["bx"] < 2.001e-30 &&
		got["ay"] > 0 && got["az"] < 1 && got["by"] == 1 && got["bz"] == 0) {
		t.Errorf("%v", got)
	}
}

// Ratings alone are no log of what was shown, so that a model can be fitted to them at once; impressions are one, and
// what is set counts before both.
func TestLogOfRatings(t *testing.T) {
	t.Parallel()
	rated := "user,item,rating\na,x,5\na,y,3\nb,x,4\n"
	for name, c := range map[string]struct {
		files, flags map[string]string
		log, note    string
	}{
		"ratings": {map[string]string{"clicks.csv": rated}, nil, "ignored", "Ratings say what was seen"},
		"set":     {map[string]string{"clicks.csv": rated}, map[string]string{"log": "complete"}, "complete", ""},
		"ignored": {map[string]string{"clicks.csv": rated}, map[string]string{"log": "ignored"}, "ignored", ""},
		"nothing to ignore": {map[string]string{"clicks.csv": "user,item\na,x\nb,x\n"},
			map[string]string{"log": "ignored"}, "", ""},
		"impressions": {map[string]string{"clicks.csv": rated, "impressions.csv": "user,item\na,x\na,y\nb,x\nb,y\n"},
			nil, "", "The exposures hold only what was shown."},
	} {
		d, r, err := interacted(t, c.files, c.flags)
		must(t, err)
		notes := notesOf(r)
		for _, note := range []string{"Ratings say what was seen", "The exposures hold only what was shown."} {
			if strings.Contains(notes, note) != (note == c.note) {
				t.Errorf("%s: want the note %q, got\n%s", name, c.note, notes)
			}
		}
		if got := d.Manifest().Log; got != c.log {
			t.Errorf("%s: the log is %q, want %q", name, got, c.log)
		}
	}
}

// A list of genres is its first one, whether the file was named or found; segments of people stay as they are.
func TestListsOfFields(t *testing.T) {
	t.Parallel()
	d, r, err := interacted(t, map[string]string{"clicks.csv": "user,item\na,x\nb,y\nb,z\n",
		"items.csv": "item,genres\nx,Comedy|Drama\ny,(no genres listed)\nz,Drama\n",
		"users.csv": "user,segment\na,new|north\nb,old\n"}, nil)
	must(t, err)
	g := d.Graph()
	got := map[string]string{}
	for i := range int32(g.Len()) {
		got[g.ID(i)] = g.FieldName(g.Field(i))
	}
	want := map[string]string{"a": "new|north", "b": "old", "x": "Comedy", "y": "unknown", "z": "Drama"}
	const note = "1 item has a list with bars as field: using the first of each"
	if !maps.Equal(got, want) || !strings.Contains(notesOf(r), note) {
		t.Errorf("fields are %q\n%s", got, notesOf(r))
	}
}

// Views and purchases in one table all count, and the import says so.
func TestKindsOfRows(t *testing.T) {
	t.Parallel()
	for column, want := range map[string]bool{"event": true, "Action": true, "colour": false} {
		table := "user,item," + column + "\na,x,view\nb,y,buy\n"
		d, r, err := interacted(t, map[string]string{"clicks.csv": table}, nil)
		must(t, err)
		note := "`" + column + "` is not used: every row counts as a click"
		if d.Graph().LinkCount() != 2 || strings.Contains(notesOf(r), note) != want {
			t.Errorf("%s: %s", column, notesOf(r))
		}
	}
}

// What the exposures mean for other pairs is recorded where it is said, and asked for where they need it.
func TestKindOfLog(t *testing.T) {
	t.Parallel()
	clicks := map[string]string{"clicks.csv": "user,item\na,x\nb,y\n"}
	shown := map[string]string{"clicks.csv": clicks["clicks.csv"], "impressions.csv": "user,item\na,x\nb,x\n"}
	both := map[string]string{"clicks.csv": clicks["clicks.csv"],
		"impressions.csv": "user,item,exposed\na,x,1\nb,x,0\n"}
	const asks = "Set log to complete if nothing else was shown"
	for _, c := range []struct {
		files map[string]string
		log   string
		asks  bool
	}{{shown, "", true}, {shown, "complete", false}, {both, "", false}, {both, "sample", false}, {clicks, "", false}} {
		flags := map[string]string{}
		if c.log != "" {
			flags["log"] = c.log
		}
		d, r, err := interacted(t, c.files, flags)
		must(t, err)
		if got := d.Manifest().Log; got != c.log || strings.Contains(notesOf(r), asks) != c.asks {
			t.Errorf("a log that is %q, and not %q:\n%s", got, c.log, notesOf(r))
		}
	}
	for log, files := range map[string]map[string]string{"complete": clicks, "whole": shown} {
		if _, _, err := interacted(t, files, map[string]string{"log": log}); !errors.Is(err, ErrUsage) {
			t.Errorf("log %q: %v", log, err)
		}
	}
}

// A lenient import skips bad rows, and what a bad record named stays.
func TestLenientInteractions(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{"c.csv": "user,item,time\na,x,1\n,x,2\na,y,soon\nb,y,3\nb\n",
		"i.csv": "id,title,time\nx,X,soon\ny,Y,\n"} {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666))
	}
	r, err := Import(background, "interactions", filepath.Join(folder, "d"),
		Options{Lenient: true, Flags: map[string]string{
			"clicks": filepath.Join(folder, "c.csv"), "items": filepath.Join(folder, "i.csv")}})
	must(t, err)
	d := open(t, filepath.Join(folder, "d"))
	if r.Rejected != 4 || rowsOf(t, d) != "a|unknown||| → x\nb|unknown||| → y\ny|unknown|Y|| →\nx|unknown||| →\n" {
		t.Errorf("%d rejected:\n%s", r.Rejected, rowsOf(t, d))
	}
}

// Many people in many buckets and batches come out as a plain map says.
func TestManyInteractions(t *testing.T) {
	t.Parallel()
	var clicks, shown strings.Builder
	clicks.WriteString("user,item,time\n")
	shown.WriteString("user,item,time,rank\n")
	links, showings := map[[2]int]int{}, map[[2]int]int{}
	x := uint64(1)
	next := func(n int) int {
		x = x*6364136223846793005 + 1442695040888963407
		return int(x >> 33 % uint64(n))
	}
	for range 12_000 {
		u, i, at := next(900), next(60), next(1000)
		fmt.Fprintf(&clicks, "u%d,i%d,%d\n", u, i, at)
		if old, known := links[[2]int{u, i}]; !known || at < old {
			links[[2]int{u, i}] = at
		}
		u, i = next(1000), next(70)
		fmt.Fprintf(&shown, "u%d,i%d,%d,%d\n", u, i, at, 1+next(9))
		showings[[2]int{u, i}]++
	}
	d, r, err := interacted(t, map[string]string{"clicks.csv": clicks.String(), "impressions.csv": shown.String()}, nil)
	must(t, err)
	g := d.Graph()
	if g.LinkCount() != len(links) || r.Repeated != 12_000-len(links) || r.Exposures != len(showings) {
		t.Errorf("%d links, %d repeated, %d exposures; want %d, %d, %d", g.LinkCount(), r.Repeated, r.Exposures,
			len(links), 12_000-len(links), len(showings))
	}
	number := func(i int32) (n int) { fmt.Sscan(g.ID(i)[1:], &n); return n }
	for i := range int32(g.Len()) {
		for k, j := range g.Out(i) {
			if at := [2]int{number(i), number(j)}; int64(links[at]) != g.OutTimes(i)[k] {
				t.Fatalf("link %v has time %d, not %d", at, g.OutTimes(i)[k], links[at])
			}
		}
	}
	e, err := d.Exposures(background)
	must(t, err)
	for k := range e.Source {
		at := [2]int{number(e.Source[k]), number(e.Target[k])}
		_, linked := links[at]
		if int(e.Count[k]) != showings[at] || e.Linked[k] != linked || e.Position[k] < 1 {
			t.Fatalf("pair %v was shown %d times, linked %t; want %d, %t", at, e.Count[k], e.Linked[k], showings[at],
				linked)
		}
	}
}

func TestParseSeconds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"": graph.NoTime, "0": 0, "-5": -5, "1700000000": 1700000000, "1700000000000": 1700000000,
		"1700000000000000": 1700000000, "1700000000000000000": 1700000000, "1700000000.75": 1700000000,
		"1.7e9":                1700000000,
		"2023-11-14T22:13:20Z": 1700000000, "2023-11-14 22:13:20": 1700000000,
		"2023-11-14 22:13:20.123456+00:00": 1700000000,
		"2023-11-14T23:13:20+01:00":        1700000000, "2023-11-14": 1699920000, " 2023-11-14 ": 1699920000,
		"2000": 2000,
	} {
		if got, err := parseSeconds(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for day := time.Date(1, 1, 1, 23, 59, 1, 0, time.UTC); day.Year() < 10_000; day = day.AddDate(0, 0, 19) {
		if got, ok := isoSeconds(day.Format(time.DateTime)); !ok || got != day.Unix() {
			t.Fatalf("%v is %d, not %d", day, got, day.Unix())
		}
	}
	for _, text := range []string{"soon", "2023-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2023-04-31T00:00:00Z",
		"2023-02-30T00:00:00Z", "2023-13-01T00:00:00Z", "NaN", "1e300", "--5"} {
		if got, err := parseSeconds(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

// An interner gives every id one number, in order, whatever the ids are.
func TestInterner(t *testing.T) {
	t.Parallel()
	n := newInterner()
	long := strings.Repeat("x", 70_000)
	ids := []string{"", "a", long, long + "y", "日本"}
	for k := range 5000 {
		ids = append(ids, fmt.Sprint(k), fmt.Sprint(k))
	}
	want := map[string]int32{}
	for _, id := range ids {
		number, err := n.add(id)
		must(t, err)
		if known, is := want[id]; is && known != number || !is && int(number) != len(want) {
			t.Fatalf("%.20q is number %d", id, number)
		}
		want[id] = number
	}
	for id, number := range want {
		if n.find(id) != number || n.id(number) != id {
			t.Fatalf("%.20q is number %d", id, n.find(id))
		}
	}
	if n.find("nobody") != -1 || n.len() != len(want) {
		t.Errorf("%d ids", n.len())
	}
}

// A row comes back from a table as it went in, to the precision of its columns.
func TestPairTable(t *testing.T) {
	t.Parallel()
	table := pairTable{timed: true, placed: true, surfaced: true, valued: true}
	rows := []pairRow{
		{person: 300, item: math.MaxInt32, flag: true, seconds: -62135596800, position: 65535, surface: 7, value: .25},
		{person: 300, item: 0, seconds: graph.NoTime, value: 3}, {person: 256, item: 5, seconds: 1 << 35},
	}
	for _, r := range rows {
		must(t, table.add(r))
	}
	keys := table.sorted(1)
	if len(keys) != 3 || len(table.sorted(0)) != 0 || table.sorted(9) != nil {
		t.Fatalf("%d keys", len(keys))
	}
	for k, want := range []pairRow{rows[2], rows[1], rows[0]} {
		if got := table.at(1, keys[k]); got != want {
			t.Errorf("row %d is %+v, not %+v", k, got, want)
		}
	}
}

func FuzzInteractions(f *testing.F) {
	f.Add(clicksCSV, showingsCSV)
	f.Add("user,item,rating\na,x,4.5\n", "user,item,clicked\na,x,1\n")
	f.Add("user\titem\n\"a\tb\n", "user,item\n")
	f.Fuzz(func(t *testing.T, clicks, shown string) {
		folder := t.TempDir()
		flags := map[string]string{"clicks": filepath.Join(folder, "c.csv"),
			"impressions": filepath.Join(folder, "s.csv")}
		must(t, os.WriteFile(flags["clicks"], []byte(clicks), 0o666))
		must(t, os.WriteFile(flags["impressions"], []byte(shown), 0o666))
		_, err := Import(background, "interactions", filepath.Join(folder, "d"), Options{Lenient: true, Flags: flags})
		if _, ours := errors.AsType[*Error](err); err != nil && !ours {
			t.Errorf("%v", err)
		}
	})
}
