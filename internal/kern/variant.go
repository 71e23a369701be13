package kern

import (
	"fmt"
	"os"
	"strings"
)

// variant is a family of kernels.
type variant uint8

const (
	plain  variant = iota // the Go twins
	avx2                  // AVX2, FMA, F16C
	avx512                // AVX-512 F, BW, DQ, VL
)

var names = [...]string{plain: "go", avx2: "avx2", avx512: "avx512"}

// active is the variant in use: the best the processor has, or what UNSEEN_KERNEL asks for.
var active = choose(os.Getenv("UNSEEN_KERNEL"))

// Variant names the kernels in use: "avx512", "avx2" or "go".
func Variant() string { return names[active] }

// Variants names the kernels that this processor and this build can use, slowest first.
func Variants() []string { return names[:best()+1] }

// Use switches to a named variant and returns a function that switches back. It is for tests
// and benchmarks: nothing else may run in the meantime.
func Use(name string) (restore func(), err error) {
	before := active
	for v := plain; v <= best(); v++ {
		if names[v] == name {
			active = v
			return func() { active = before }, nil
		}
	}
	return nil, fmt.Errorf("no variant %q here; there is %s", name, strings.Join(Variants(), ", "))
}

// choose falls back to the best variant when the wish cannot be met: a setting made for another
// machine must not stop a program from starting.
func choose(wish string) variant {
	for v := plain; v <= best(); v++ {
		if names[v] == wish {
			return v
		}
	}
	return best()
}
