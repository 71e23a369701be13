package layered

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
)

// Every version equals a plain map, also after later ones were made.
func TestMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var versions []Map[int]
	var want []map[string]int
	version, plain := Map[int]{}, map[string]int{}
	for step := range 2000 {
		version = version.Next()
		for range 1 + random.IntN(4) {
			key := fmt.Sprint(random.IntN(3000))
			if random.IntN(4) == 0 {
				version.Delete(key)
				delete(plain, key)
				continue
			}
			version.Set(key, step)
			plain[key] = step
		}
		if step%97 == 0 {
			versions, want = append(versions, version), append(want, maps.Clone(plain))
		}
	}
	for k, v := range versions {
		if got := maps.Collect(v.All()); !maps.Equal(got, want[k]) {
			t.Fatalf("version %d differs", k)
		}
		for key := range 3000 {
			got, ok := v.Get(fmt.Sprint(key))
			if other, has := want[k][fmt.Sprint(key)]; ok != has || got != other {
				t.Fatalf("version %d, key %d: %d %v, want %d %v", k, key, got, ok, other, has)
			}
		}
	}
}
