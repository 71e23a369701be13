package sbom

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
)

// Script is a package of npm's of which a file is embedded in the program.
type Script struct {
	Package, Version string
	SHA256           string // of the file
}

var scriptName = regexp.MustCompile(`^([a-z]+)-([0-9.]+)\.min\.js$`)

// npmNames are the npm packages of scripts whose files have other names.
var npmNames = map[string]string{"htmx": "htmx.org"}

// Scripts lists the scripts of a folder, whose files are named after their package and version: htmx-4.0.0.min.js.
func Scripts(folder fs.FS) (scripts []Script, err error) {
	files, err := fs.Glob(folder, "*.js")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		parts := scriptName.FindStringSubmatch(file)
		if parts == nil {
			return nil, fmt.Errorf("script %s is not named NAME-VERSION.min.js; rename it", file)
		}
		raw, err := fs.ReadFile(folder, file)
		if err != nil {
			return nil, err
		}
		name := parts[1]
		if npm := npmNames[name]; npm != "" {
			name = npm
		}
		sum := sha256.Sum256(raw)
		scripts = append(scripts, Script{Package: name, Version: parts[2], SHA256: hex.EncodeToString(sum[:])})
	}
	return scripts, nil
}
