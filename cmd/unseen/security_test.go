package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table of limits in SECURITY.md names every attack, and only files and tests that exist.
func TestSecurityTable(t *testing.T) {
	t.Parallel()
	const root = "../.."
	raw, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	exist := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range declared.FindAllSubmatch(source, -1) {
			exist[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 { // limit, value, where, tested by, and what is outside
			continue
		}
		for _, code := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[3], -1) {
			if _, err := os.Stat(filepath.Join(root, code[1])); err != nil {
				t.Errorf("SECURITY.md: there is no %s", code[1])
			}
		}
		for _, test := range regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(cells[4], -1) {
			if named[test[1]] = true; !exist[test[1]] {
				t.Errorf("SECURITY.md: there is no %s", test[1])
			}
		}
	}
	for name := range exist {
		if strings.HasPrefix(name, "TestAttack") && name != "TestAttackChild" && !named[name] {
			t.Errorf("SECURITY.md does not name %s", name)
		}
	}
}
