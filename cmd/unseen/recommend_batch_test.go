package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// Probabilities in files of lists are those that encoding/json writes of six digits.
func TestAppendProbability(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 1))
	all := []float64{0, 1, .5, .1, .01, .001, 1e-4, 1e-5, 1e-6, 1e-7, .9999996, .09999996, .000999999999, 9.999999e-7,
		5e-324, math.Nextafter(1, 0), math.Nextafter(.1, 0), math.Nextafter(1e-3, 0), math.Nextafter(1e-6, 0)}
	for range 20_000 {
		all = append(all, math.Exp(-25*random.Float64()))
	}
	for _, p := range all {
		short, err := strconv.ParseFloat(strconv.FormatFloat(p, 'g', 6, 64), 64)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(short)
		if got := appendProbability([]byte("x0,"), p); err != nil || string(got) != "x0,"+string(want) {
			t.Fatalf("%v is written %s, want %s (%v)", p, got, want, err)
		}
	}
}
