package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unseen/internal/racetest"
	"unseen/internal/temptest"
)

// everyFile lists what is below a folder, with sizes.
func everyFile(t *testing.T, folder string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		raw, _ := os.ReadFile(path)
		files = append(files, strings.TrimPrefix(path, folder)+" "+string(raw))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// On a full disk every command that writes says so in one line. What it writes is there as a whole or not at all: the
// disk is as it was, or holds what the same command continues with.
func TestAttackFullDiskCommands(t *testing.T) {
	racetest.Skip(t, "commands that write start no goroutine but those of the packages, which are tested there")
	dir, _, naive := fitted(t)
	tables := filepath.Join(t.TempDir(), "tables")
	well(t, "export", dir, "--to", "csv", "-o", tables, "--quiet")
	disk := temptest.SmallDisk(t, 24<<20)
	papers := filepath.Join(disk, "papers")
	if err := os.CopyFS(papers, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(disk, "out")
	for name, args := range map[string][]string{
		"import":         {"import", "csv", tables, "-o", out},
		"import again":   {"import", "csv", tables, "-o", papers, "--force"},
		"export csv":     {"export", dir, "--to", "csv", "-o", out},
		"export jsonl":   {"export", dir, "--to", "jsonl", "-o", out},
		"export parquet": {"export", dir, "--to", "parquet", "-o", out},
		"export npz":     {"export", dir, "--to", "npz", "-o", out},
		"fit":            {"fit", dir, "-o", out, "--method", "naive"},
		"encode":         {"encode", papers, "--force", "--dim", "8"},
		"study":          {"study", "theory", "--quick", "--out", out},
		"recommend":      {"recommend", naive, dir, "--all", "-o", out, "--format", "jsonl"},
	} {
		t.Run(name, func(t *testing.T) {
			failed := 0
			for _, free := range []int{0, 4 << 10, 16 << 10, 64 << 10, 256 << 10} {
				full := temptest.FillDisk(t, disk, free)
				before := everyFile(t, papers)
				code, _, stderr := invoke(append(slices.Clone(args), "--quiet")...)
				if err := os.Remove(full); err != nil {
					t.Fatal(err)
				}
				if code == exitOK {
					os.RemoveAll(out)
					os.RemoveAll(papers)
					if err := os.CopyFS(papers, os.DirFS(dir)); err != nil {
						t.Fatal(err)
					}
					continue
				}
				failed++
				if strings.Count(stderr, "\n") > 1 || !strings.Contains(stderr, "space") {
					t.Errorf("with %d bytes free: %q", free, stderr)
				}
				entries, err := os.ReadDir(disk)
				if err != nil {
					t.Fatal(err)
				}
				for _, entry := range entries {
					if left, _ := os.ReadDir(filepath.Join(disk, entry.Name())); entry.Name() == "papers" ||
						entry.IsDir() && len(left) == 0 {
						continue
					}
					// what is left is whole: the same command continues there
					if again, _, _ := invoke(append(slices.Clone(args), "--quiet", "--resume")...); again != exitOK {
						t.Errorf("with %d bytes free it left %s", free, entry.Name())
					}
					os.RemoveAll(filepath.Join(disk, entry.Name()))
				}
				os.RemoveAll(out)
				if !slices.Equal(everyFile(t, papers), before) {
					t.Errorf("with %d bytes free the dataset has changed", free)
				}
			}
			if failed == 0 {
				t.Error("it never ran out of space")
			}
		})
	}
}
