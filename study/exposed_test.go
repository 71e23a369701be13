package study

import (
	"cmp"
	"compress/gzip"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unseen/fit"
	"unseen/internal/racetest"
	"unseen/sample"
)

// conversation is people who were shown statements that were there while they were active, some more than others, with
// planted tastes.
func conversation(seed uint64, people, items int) *ShownSet {
	rng := rand.New(rand.NewPCG(seed, 7))
	s := &ShownSet{Name: "made"}
	taste := make([]float64, items)
	for j := range items {
		s.Items = append(s.Items, string(rune('a'+j)))
		s.Since = append(s.Since, int64(j)*40_000)
		taste[j] = rng.NormFloat64()
	}
	for i := range people {
		s.People = append(s.People, "p"+string(rune('A'+i)))
		last, busy, side := rng.Int64N(int64(items)*40_000)+100_000, rng.Float64(), rng.NormFloat64()
		for j, since := range s.Since {
			if since < last && rng.Float64() < busy {
				z := taste[j] + 2*side*taste[(j+1)%items]
				s.Shown = append(s.Shown, ShownPair{int32(i), int32(j), rng.Float64() < 1/(1+math.Exp(-z)), last - 60})
			}
		}
	}
	return s
}

func TestExposed(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine of package fit has the goroutines of every fit")
	results, err := Run(t.Context(), []string{"exposed"}, Options{Shown: []*ShownSet{conversation(1, 50, 16)},
		Seeds: Seeds(1, 2), Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	r := results[0]
	if err := r.check(); err != nil {
		t.Error(err)
	}
	rows := map[string]*ExposedRow{}
	for _, row := range r.Rows.([]*ExposedRow) {
		rows[row.Mode+", "+row.Method] = row
		for name, x := range map[string]float64{"AUC": float64(row.AUC), "NDCG": float64(row.NDCG),
			"log-loss": float64(row.LogLoss)} {
			if !(x > 0 && x < 2) {
				t.Errorf("%s, %s: %s %v", row.Mode, row.Method, name, x)
			}
		}
	}
	// A complete log leaves ŷ to shown pairs alone, and π̂ to the log.
	with, only := rows["complete log, mle"], rows["complete log, shown only"]
	if math.Abs(float64(with.AUC-only.AUC)) > .01 || math.Abs(float64(with.LogLoss-only.LogLoss)) > .01 ||
		math.Abs(float64(with.MeanPropensity-with.ShownShare)) > .02 || only.GapAUC != 1 || only.GapLogLoss != 1 {
		t.Errorf("mle %+v, shown only %+v", with, only)
	}
	if first, last := rows["blind, "+naiveAll], rows["complete log, "+naiveAll]; first.AUC != last.AUC ||
		first.GapLogLoss != 0 {
		t.Errorf("naive %+v and %+v", first, last)
	}
	if len(r.Claims) != 9 || len(r.Figures) != 3 || len(r.Tables) != 2 {
		t.Errorf("%d claims, %d figures, %d tables", len(r.Claims), len(r.Figures), len(r.Tables))
	}
}

// Without times there are goals of their own, also for pairs that were never shown, and none where pairs are given that
// were shown at random.
func TestExposedWithoutTimes(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine of package fit has the goroutines of every fit")
	ratings, random := conversation(3, 30, 10), conversation(4, 30, 10)
	ratings.Name, ratings.Since, random.Since = "ratings", nil, nil
	ratings.Shown = slices.DeleteFunc(ratings.Shown, func(p ShownPair) bool { return p.Person < 12 })
	for i := range int32(12) { // to whom everything was shown
		for j := range int32(10) {
			ratings.Shown = append(ratings.Shown, ShownPair{Person: i, Item: j, Liked: (i+j)%3 == 0})
		}
	}
	half := len(random.Shown) / 2
	random.Name, random.Random, random.Shown = "random", random.Shown[half:], random.Shown[:half]
	results, err := Run(t.Context(), []string{"exposed"}, Options{Shown: []*ShownSet{ratings, random},
		Seeds: Seeds(1, 1), Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	sets := map[string]int{}
	for _, row := range results[0].Rows.([]*ExposedRow) {
		sets[row.Set]++
	}
	if len(sets) != 3 || sets["ratings"+neverSuffix] != sets["ratings"] || sets["random"] == 0 {
		t.Errorf("rows %v", sets)
	}
	for _, c := range results[0].Claims {
		if strings.Contains(c.Evidence, "random") || !strings.Contains(c.Evidence, "ratings"+neverSuffix) {
			t.Errorf("%s: %s", c.Statement, c.Evidence)
		}
	}
	if len(results[0].Claims) != 5 {
		t.Errorf("%d claims", len(results[0].Claims))
	}
}

// On a real conversation a complete log makes mle shown only, and blind it is better calibrated than naive. UNSEEN_DATA
// says where the data are.
func TestExposedOnRealData(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine of package fit has the goroutines of every fit")
	folder := filepath.Join(cmp.Or(os.Getenv("UNSEEN_DATA"), "../../shared/data"), "polis", "brexit-consensus")
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("no folder %s: set UNSEEN_DATA to the folder of data", folder)
	}
	s, err := OpenShown(folder, ShownOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDraw(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	of := func(m exposedMode, method string) *judged {
		if err := d.fit(t.Context(), m, method); err != nil {
			t.Fatal(err)
		}
		return judge([]*exposedDraw{d}, m, method)
	}
	with, only := of(complete, ours), of(complete, shownPairsOnly)
	if a, b := with.mean(withinAUC), only.mean(withinAUC); math.Abs(a-b) > mostBelowShown || a < .8 {
		t.Errorf("AUC %v with a complete log, %v of shown pairs only", a, b)
	}
	if a, b := of(blind, ours).mean(logLoss), of(blind, naiveAvailable).mean(logLoss); a > b-.02 {
		t.Errorf("log-loss %v blind, %v of naive", a, b)
	}
}

// Exposure that depends on activity is learned to the same optimum by either optimiser: rounds leave its slopes where
// they are, and if they went on until nothing changed, exposure would run to 1, where no slope leads back.
func TestExposureDoesNotRunAway(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine of package fit has the goroutines of every fit")
	d, err := newDraw(conversation(2, 100, 40), 5)
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := d.prepare(t.Context(), blind, true)
	if err != nil {
		t.Fatal(err)
	}
	objective := func(optimiser string) float64 {
		s := exposedSettings(ours, 11)
		s.Optimiser = optimiser
		r, err := fit.Fit(t.Context(), prepared.Problem, s)
		if err != nil {
			t.Fatal(err)
		}
		return r.Objective.Total()
	}
	if a, b := objective("alternating"), objective("lbfgs"); math.Abs(a-b) > 1e-3 {
		t.Errorf("the objective ends at %v, with L-BFGS alone at %v", a, b)
	}
}

// Held-out pairs are, for training, not shown and not linked, and people with a log are not judged.
func TestExposedDraw(t *testing.T) {
	t.Parallel()
	s := conversation(2, 30, 12)
	d, err := newDraw(s, 5)
	if err != nil {
		t.Fatal(err)
	}
	if share := float64(len(d.test)) / float64(len(s.Shown)); share < .1 || share > .3 ||
		len(d.test)+len(d.train) != len(s.Shown) {
		t.Errorf("%d of %d pairs are held out", len(d.test), len(s.Shown))
	}
	shown := map[[2]int32]bool{}
	for _, m := range exposedModes {
		log, kind := d.log(m)
		if (log == nil) != (m == blind) {
			t.Fatalf("%s: log %v", m.name, log)
		}
		if log == nil {
			continue
		}
		clear(shown)
		for k := range log.Source {
			shown[[2]int32{log.Source[k], log.Target[k]}] = log.Exposed[k]
		}
		if sampled := slices.Contains(log.Exposed, false); sampled != (kind == sample.Sampled) {
			t.Errorf("%s: a %s log has pairs that were not shown: %v", m.name, kind, sampled)
		}
		people := d.loggedPeople(m)
		for _, p := range d.test {
			at := [2]int32{p.Person, d.node(p.Item)}
			if shown[at] || d.graph.HasLink(at[0], at[1]) {
				t.Fatalf("%s: the held-out pair %v is known", m.name, p)
			}
		}
		for _, p := range d.train {
			if people != nil && people[p.Person] != shown[[2]int32{p.Person, d.node(p.Item)}] {
				t.Fatalf("%s: pair %v of a person whose log is known: %v", m.name, p, people[p.Person])
			}
		}
	}
	d.fits[fitOf{tenthOf.name, ours}] = &exposedFit{logits: make([]float64, len(d.test))}
	people := d.loggedPeople(tenthOf)
	for person := range judge([]*exposedDraw{d}, tenthOf, ours).people {
		if people[person] {
			t.Errorf("person %d has a log and is judged", person)
		}
	}
}

func TestOpenShown(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		f, err := os.Create(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if !strings.HasSuffix(name, ".gz") {
			_, err = f.WriteString(text)
		} else {
			w := gzip.NewWriter(f)
			if _, err = w.Write([]byte(text)); err == nil {
				err = w.Close()
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	open := func(test string) *ShownSet {
		t.Helper()
		s, err := OpenShown(folder, ShownOptions{Test: test})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if _, err := OpenShown(folder, ShownOptions{}); err == nil || !strings.Contains(err.Error(), "ratings.csv.gz") {
		t.Errorf("an empty folder: %v", err)
	}
	write("ratings.csv", "person,joke,rating\na,1,-2\na,2,3.5\nb,1,.5\nb,2,-1\nc,2,1\n")
	write("random.csv", "person,item,rating\nc,1,1\na,3,-4\n")
	s := open(filepath.Join(folder, "random.csv"))
	if want := []ShownPair{{0, 0, false, 0}, {0, 1, true, 0}, {1, 0, true, 0}, {1, 1, false, 0},
		{2, 1, true, 0}}; s.Since !=
		nil || !slices.Equal(s.Shown, want) ||
		!slices.Equal(s.Random, []ShownPair{{2, 0, true, 0}, {0, 2, false, 0}}) ||
		!slices.Equal(s.Items, []string{"1", "2", "3"}) {
		t.Errorf("ratings %+v", s)
	}
	// a and b were shown everything, and get the mask of c, who was shown the second item alone
	masked := open("").masked(1)
	if len(masked.People) != 2 || !slices.Equal(masked.Shown, []ShownPair{{0, 1, true, 0}, {1, 1, false, 0}}) ||
		!slices.Equal(masked.Random, []ShownPair{{0, 0, false, 0}, {1, 0, true, 0}}) {
		t.Errorf("masked %+v", masked)
	}
	write("statements.csv.gz", "id,time,author,text\n7,5000,x,\"one, two\"\n8,9000,x,three\n")
	write("votes.csv.gz", "person,statement,vote,time\na,8,0,10000\nb,7,-1,11000\nb,7,1,12000\n")
	if s = open(""); !slices.Equal(s.Since, []int64{5, 9}) ||
		!slices.Equal(s.Shown, []ShownPair{{0, 1, false, 10}, {1, 0, true, 12}}) || s.masked(1) != nil {
		t.Errorf("votes %+v", s)
	}
	write("votes.csv.gz", "person,statement,vote,time\na,9,0,10000\n")
	if _, err := OpenShown(folder, ShownOptions{}); err == nil || !strings.Contains(err.Error(), "does not have") {
		t.Errorf("a vote on nothing: %v", err)
	}
}

// Ratings are read as Coat, Yahoo R3 and KuaiRec publish them, and what is wrong with a file is said.
//
// Long because it is a table of files.
func TestRatings(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		train, test   string
		threshold     float64
		people, items int
		shown, random []ShownPair
	}{
		"coat": {"5 0 1 0\n0 2 0 4\n", "0 3 0 0\n1 0 0 0\n", 0, 2, 4,
			[]ShownPair{{0, 0, true, 0}, {0, 2, false, 0}, {1, 1, false, 0}, {1, 3, true, 0}},
			[]ShownPair{{0, 1, true, 0}, {1, 0, false, 0}}},
		"yahoo": {"1\t14\t5\n1\t35\t1\n2\t46\t1\n", "1\t46\t4\n3\t14\t2\n", 0, 3, 3,
			[]ShownPair{{0, 0, true, 0}, {0, 1, false, 0}, {1, 2, false, 0}},
			[]ShownPair{{0, 2, true, 0}, {2, 0, false, 0}}},
		"kuairec": {"user_id,video_id,play_duration,watch_ratio\n0,7,900,2.5\n0,8,10,.5\n1,7,30,1.9\n",
			"user_id,video_id,play_duration,watch_ratio\n1,8,8,2\n0,7,5,.1\n", 2, 2, 2,
			[]ShownPair{{0, 0, true, 0}, {0, 1, false, 0}, {1, 0, false, 0}},
			[]ShownPair{{1, 1, true, 0}, {0, 0, false, 0}}},
		"tabs": {"person\titem\trating\na\tx y\t4\nb\tz\t2\n", "person,item,rating\na,z,4\nb,x y,1\n", 0, 2, 2,
			[]ShownPair{{0, 0, true, 0}, {1, 1, false, 0}}, []ShownPair{{0, 1, true, 0}, {1, 0, false, 0}}},
	} {
		s, err := OpenShown(file(name+".train.txt", c.train), ShownOptions{Test: file(name+".test", c.test),
			Threshold: c.threshold})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s.Name != name || len(s.People) != c.people || len(s.Items) != c.items || !slices.Equal(s.Shown, c.shown) ||
			!slices.Equal(s.Random, c.random) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	good := file("good.csv", "person,item,rating\na,x,5\nb,y,1\n")
	for text, says := range map[string]string{
		"":                                   "EOF",
		"person,item,rating\n":               "no ratings",
		"who,what,stars\na,x,5\n":            "its columns are who, what, stars; name them",
		"person,item,rating\na,x,good\n":     "row 2: ",
		"person,item,rating\na,x,NaN\n":      "row 2: unusable option: the rating is NaN",
		"person,item,rating\na,x\n":          "row 2: ",
		"1\t2\t3\n1\t2\n":                    "row 2: unusable option: 2 numbers",
		"1 0 2 0\n1 0 2\n":                   "row 2: unusable option: 3 numbers, where the first row has 4",
		"person,item,rating\nq,x,5\nr,x,1\n": "no person of",
		"person,item,rating\na,x,5\na,y,4\n": "2 are likes; set another threshold",
	} {
		path := file("bad.csv", text)
		if _, err := OpenShown(good, ShownOptions{Test: path}); err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "bad.csv") {
			t.Errorf("%q: %v; want %q", text, err, says)
		}
	}
}

// Of too many people some are drawn, first those that are judged.
func TestThinned(t *testing.T) {
	t.Parallel()
	s := conversation(3, 60, 20)
	s.Random = slices.DeleteFunc(slices.Clone(s.Shown), func(p ShownPair) bool { return p.Person%3 > 0 })
	all := len(s.Shown)
	if s.thin(60); len(s.People) != 60 || s.drawnFrom != 0 || len(s.Shown) != all {
		t.Errorf("%d people of %d", len(s.People), s.drawnFrom)
	}
	if s.thin(15); len(s.People) != 15 || s.drawnFrom != 60 || len(s.Shown) >= all/2 || len(s.Random) == 0 {
		t.Errorf("%d people of %d, %d shown pairs", len(s.People), s.drawnFrom, len(s.Shown))
	}
	pairs := map[ShownPair]bool{}
	for _, p := range s.Shown {
		pairs[p] = true
	}
	for _, p := range s.Random { // they keep their people
		if !pairs[p] {
			t.Fatalf("pair %v is of another person", p)
		}
	}
	if len(pairs) != len(s.Random) {
		t.Errorf("%d of %d pairs are of people who are not judged", len(pairs)-len(s.Random), len(pairs))
	}
}

func TestExposedMeasures(t *testing.T) {
	t.Parallel()
	scores, liked := []float64{3, 2, 1, 0}, []bool{false, true, true, false}
	if got, want := ndcgOf(scores, liked, 2), (1/math.Log2(3))/(1+1/math.Log2(3)); math.Abs(got-want) > 1e-12 {
		t.Errorf("NDCG %v, want %v", got, want)
	}
	a, b := logistic([]float64{-1, 1, -1, 1}, []ShownPair{{Liked: false}, {Liked: true}, {Liked: true}, {Liked: true}})
	if !(a > 0 && b > 0) {
		t.Errorf("slope %v and intercept %v", a, b)
	}
	one := &judged{people: map[int32]*personal{0: {lists: 1, auc: .9}, 1: {lists: 1, auc: .7}}}
	two := &judged{people: map[int32]*personal{0: {lists: 1, auc: .8}, 1: {lists: 1, auc: .8}}}
	d := difference(withinAUC, [2]*judged{one, two})
	if half := 1.96 * math.Sqrt(.02) / 2; math.Abs(d.Estimate) > 1e-12 || math.Abs(d.Upper-half) > 1e-12 {
		t.Errorf("difference %+v", d)
	}
}
