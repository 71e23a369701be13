package exchange

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"testing"
)

// What random.seed(index) and random.choice give in Python 3.11.
func TestPaperSimulation(t *testing.T) {
	tw := newTwister(0)
	for index, want := range map[uint64]string{0: "mathematics", 1: "computer science", 12345: "medicine",
		1 << 40: "chemistry"} {
		if got := paperFields[paperField(tw, index)]; got != want {
			t.Errorf("the field of %d is %s, want %s", index, got, want)
		}
	}
}

func TestPaperSimulationAgainstPython(t *testing.T) {
	python := ""
	for _, p := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(p, "-c", "import numpy").Run() == nil {
			python = p
			break
		}
	}
	if python == "" {
		t.Skip("not checked against Python: there is no python3 with NumPy; ./check makes one")
	}
	out, err := exec.Command(python, "-c", fmt.Sprintf(`
import json, random, numpy as np
n = 19
seed = %d
np.random.seed(seed)
size = (n + 2)**2
low = np.random.binomial(1, 0.8, size=size)
v = low * np.random.uniform(.1, .3, size=size) + (1 - low) * np.random.uniform(.7, 1, size=size)
for i in range(1, n + 1): v[i * n + i] = np.random.uniform(0.7, 0.9)
fields = []
for p in list(range(300)) + [2**31, 2**32 - 1, 2**32, 2**40]:
    random.seed(p); fields.append(random.choice(range(n)))
ps = np.linspace(0, 1, 100)
draws = []
for k in range(0, 100, 32):
    np.random.seed(seed); draws += [int(x) for x in np.random.binomial(1, ps[k:k+32])]
print(json.dumps({"table": [[v[i * n + j] for j in range(1, n + 1)] for i in range(1, n + 1)], "fields": fields, "p": list(ps), "draws": draws}))
`, paperSeed)).Output()
	must(t, err)
	var want struct {
		Table  [][]float64
		Fields []int
		P      []float64
		Draws  []int
	}
	must(t, json.Unmarshal(out, &want))
	table := paperPropensities()
	for i := range table {
		for j := range table[i] {
			if math.Abs(table[i][j]-want.Table[i][j]) > 1e-15 {
				t.Fatalf("π of %d and %d is %v, Python has %v", i, j, table[i][j], want.Table[i][j])
			}
		}
	}
	tw := newTwister(0)
	for k, f := range want.Fields {
		index := uint64(k)
		if k >= 300 {
			index = []uint64{1 << 31, 1<<32 - 1, 1 << 32, 1 << 40}[k-300]
		}
		if got := paperField(tw, index); got != f {
			t.Fatalf("the field of %d is %d, Python has %d", index, got, f)
		}
	}
	for k, drawn := range paperDraws(want.P) {
		if drawn != (want.Draws[k] == 1) {
			t.Fatalf("draw %d with %v is %v, Python has %d", k, want.P[k], drawn, want.Draws[k])
		}
	}
}
