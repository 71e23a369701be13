package exchange

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tables of impressions are read with usual names of columns, from every format, and one row after the other.
func TestReadImpressions(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, c := range map[string]struct{ content, target, want string }{
		"usual.csv": {"context,item,place,probability,outcome\na,x,1,.5,1\nb,y,2,1,0\n", "",
			"a||x|1|0.5|true|0 b||y|2|1|false|0"},
		"other.csv": {"user_id;list_id;item_id;position;propensity;clicked;new\na;7;x;3;0.25;true;.75\n", "new",
			"a|7|x|3|0.25|true|0.75"},
		"least.jsonl": {`{"source":"a","target":"x","probability":0.5,"reward":0}` + "\n", "", "a||x|0|0.5|false|0"},
	} {
		path := filepath.Join(folder, name)
		must(t, os.WriteFile(path, []byte(c.content), 0o666))
		var got []string
		_, err := ReadImpressions(background, path, c.target, Options{}, func(i Impression) error {
			got = append(got, fmt.Sprintf("%s|%s|%s|%d|%v|%v|%v", i.Context, i.List, i.Item, i.Place, i.Probability,
				i.Outcome, i.Target))
			return nil
		})
		if text := strings.Join(got, " "); err != nil || text != c.want {
			t.Errorf("%s: %q, %v; want %q", name, text, err, c.want)
		}
	}
}

func FuzzImpressions(f *testing.F) {
	f.Add("context,item,place,probability,outcome,t\na,x,1,.5,1,.2\n", false)
	f.Add(`{"context":"a","item":"x","probability":1,"outcome":false,"t":1}`, true)
	f.Add("context,item,probability,outcome,t\n\"a,x\n", false)
	f.Fuzz(func(t *testing.T, content string, objects bool) {
		path := filepath.Join(t.TempDir(), "t.csv")
		if objects {
			path = filepath.Join(t.TempDir(), "t.jsonl")
		}
		must(t, os.WriteFile(path, []byte(content), 0o666))
		_, err := ReadImpressions(background, path, "t", Options{}, func(i Impression) error {
			if i.Context == "" || i.Item == "" || i.Place < 0 || !(i.Probability > 0 && i.Probability <= 1) ||
				!(i.Target >= 0 && i.Target <= 1) {
				t.Errorf("%+v", i)
			}
			return nil
		})
		if e, ours := errors.AsType[*Error](err); err != nil && (!ours || e.Place.File != path) {
			t.Errorf("%v", err)
		}
	})
}
