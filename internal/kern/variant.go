package kern

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// variant is a family of kernels.
type variant uint8

const (
	plain  variant = iota // the Go twins
	avx2                  // AVX2, FMA, F16C
	avx512                // AVX-512 F, BW, DQ, VL
	neon                  // what every arm64 processor has
)

var names = [...]string{plain: "go", avx2: "avx2", avx512: "avx512", neon: "neon"}

// active is the variant in use: the best the processor has, or what UNSEEN_KERNEL asks for.
var active = choose(os.Getenv("UNSEEN_KERNEL"))

// Variant names the kernels in use: "avx512", "avx2", "neon" or "go".
func Variant() string { return names[active] }

// Variants names the kernels that this processor and this build can use, slowest first.
func Variants() []string {
	var out []string
	for _, v := range variants() {
		out = append(out, names[v])
	}
	return out
}

// Use switches to a named variant and returns a function that switches back. It is for tests
// and benchmarks: nothing else may run in the meantime.
func Use(name string) (restore func(), err error) {
	before := active
	if !slices.Contains(Variants(), name) {
		return nil, fmt.Errorf("no variant %q here; there is %s", name, strings.Join(Variants(), ", "))
	}
	active = choose(name)
	return func() { active = before }, nil
}

// choose falls back to the best variant when the wish cannot be met: a setting made for another
// machine must not stop a program from starting.
func choose(wish string) variant {
	here := variants()
	for _, v := range here {
		if names[v] == wish {
			return v
		}
	}
	return here[len(here)-1]
}
