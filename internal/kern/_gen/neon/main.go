// Command neon writes the arm64 assembly of package kern. Run it by `go generate ./internal/kern`. Its
// kernels need only what every arm64 processor has, but for those whose name ends in SDOT.
package main

import (
	"flag"
	"log"
	"os"
)

func main() {
	out := flag.String("out", "", "write the assembly to this file")
	stubs := flag.String("stubs", "", "write the Go declarations to this file")
	flag.Parse()
	var f file
	for _, half := range []bool{false, true} {
		for _, scan := range []bool{false, true} {
			dotRows(&f, half, scan)
		}
		addRows(&f, half)
		dotPairs(&f, half)
		addPairs(&f, half)
	}
	tile(&f)
	transpose(&f)
	gram(&f)
	above(&f)
	columnsAbove(&f)
	fromHalf(&f)
	dotCodes(&f, true)
	dotCodes(&f, false)
	dotCodesAt(&f, true)
	dotCodesAt(&f, false)
	scaleCodes(&f)
	tileCodes(&f)
	reachCodes(&f)
	elementwise(&f)
	for _, of := range []string{"", "Each", "Both", "EachBoth"} {
		lossSums(&f, of)
	}
	adam(&f)
	pairSlopes(&f)
	for name, text := range map[string]string{*out: f.assembly(), *stubs: f.declarations()} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
