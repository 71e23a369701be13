package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
)

// vendored is the folder of third-party scripts.
const vendored = "pages/assets/vendor"

var scriptName = regexp.MustCompile(`^([a-z]+)-([0-9.]+)\.min\.js$`)

// scriptPackages are the npm packages of scripts whose names differ.
var scriptPackages = map[string]string{"htmx": "htmx.org"}

// PageScript is a third-party script that the pages use. It is part of the binary.
type PageScript struct {
	Package, Version string // as npm has it
	SHA256           string // of the file
}

// Scripts lists the third-party scripts.
func Scripts() []PageScript {
	entries, err := fs.ReadDir(pageFiles, vendored)
	if err != nil {
		panic(err) // they are part of the program
	}
	var out []PageScript
	for _, e := range entries {
		parts := scriptName.FindStringSubmatch(e.Name())
		if parts == nil {
			continue // licences, styles
		}
		raw, err := fs.ReadFile(pageFiles, vendored+"/"+e.Name())
		if err != nil {
			panic(fmt.Errorf("%s: %w", e.Name(), err))
		}
		name := parts[1]
		if p := scriptPackages[name]; p != "" {
			name = p
		}
		sum := sha256.Sum256(raw)
		out = append(out, PageScript{Package: name, Version: parts[2], SHA256: hex.EncodeToString(sum[:])})
	}
	return out
}
