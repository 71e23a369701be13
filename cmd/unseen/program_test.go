package main

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	"unseen/internal/postgrestest"
	"unseen/internal/temptest"
)

// asProgram makes the test binary the program itself; asPart also sets how many nodes a part of lists holds.
const asProgram, asPart = "UNSEEN_TEST_AS_PROGRAM", "UNSEEN_TEST_PART"

// leftBehind are folders that tests share, removed when all are done.
var leftBehind []string

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		if size, err := strconv.Atoi(os.Getenv(asPart)); err == nil {
			batchPart = size
		}
		main()
	}
	os.Exit(temptest.Run(func() int {
		defer postgrestest.Close()
		defer func() {
			for _, folder := range leftBehind {
				os.RemoveAll(folder)
			}
		}()
		return m.Run()
	}))
}

// program is the program as a process of its own, to be killed or run by a shell.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(path, args...)
	command.Env = append(os.Environ(), asProgram+"=1")
	return command
}
