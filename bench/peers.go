package main

import (
	"bufio"
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

//go:embed peers/kernels.py
var kernelsPy string

//go:embed peers/requirements.txt
var requirements string

// peers is a Python process that loads the peer libraries and runs one task at a time.
type peers struct {
	why      string // why there is no process
	settings string // of the peers, with their versions
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Reader
	stopIt   sync.Once
}

// answer is the result of a task.
type answer struct {
	Seconds  float64   `json:"seconds"`
	Bytes    float64   `json:"bytes"`
	IDs      [][]int32 `json:"ids"`
	Error    string    `json:"error"`   // the task failed
	Missing  string    `json:"missing"` // the library is not installed
	Settings string    `json:"settings"`
}

// peerEnvironment is the environment of the peers, on one thread. OpenBLAS takes this processor for an older one where
// a virtual machine hides its model, and is then a fifth slower.
func peerEnvironment() []string {
	return append(os.Environ(), "OPENBLAS_CORETYPE=SkylakeX", "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1",
		"MKL_NUM_THREADS=1")
}

// startPeers starts the interpreter named by PYTHON, or one of an environment with the peers of
// peers/requirements.txt from PyPI, which is made in the user's cache the first time.
func startPeers(log io.Writer) *peers {
	python := os.Getenv("PYTHON")
	if python == "" {
		var err error
		if python, err = peerInterpreter(log); err != nil {
			return &peers{why: err.Error()}
		}
	}
	cmd := exec.Command(python, "-c", kernelsPy)
	cmd.Env = peerEnvironment()
	cmd.Stderr = log
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := cmp.Or(err1, err2); err != nil {
		return &peers{why: err.Error()}
	}
	if err := cmd.Start(); err != nil {
		return &peers{why: err.Error()}
	}
	p := &peers{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	said, err := p.ask("settings", nil)
	if err != nil {
		p.stop()
		return &peers{why: err.Error()}
	}
	p.settings = said.Settings
	return p
}

// peerInterpreter returns the interpreter of the environment. One that was not made to its end is made again.
func peerInterpreter(log io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	home := filepath.Join(cache, fmt.Sprintf("unseen-bench-peers-%08x", crc32.ChecksumIEEE([]byte(requirements))))
	python, whole := filepath.Join(home, "bin", "python3"), filepath.Join(home, "whole")
	if _, err := os.Stat(whole); err == nil {
		return python, nil
	}
	fmt.Fprintf(log, "installing the peers from PyPI into %s, once: about 5 GB, most of it torch's\n", home)
	if err := errors.Join(os.RemoveAll(home), os.MkdirAll(home, 0o755)); err != nil {
		return "", err
	}
	list := filepath.Join(home, "requirements.txt")
	if err := os.WriteFile(list, []byte(requirements), 0o644); err != nil {
		return "", err
	}
	for _, command := range [][]string{{"python3", "-m", "venv", home},
		{python, "-m", "pip", "install", "--quiet", "--requirement", list}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w: %s", command, err, bytes.TrimSpace(out))
		}
	}
	return python, os.WriteFile(whole, nil, 0o644)
}

// ask runs a task and returns its own measure of the time.
func (p *peers) ask(task string, arguments map[string]any) (answer, error) {
	if p.cmd == nil {
		return answer{}, fmt.Errorf("%w: %s", errNoPeer, p.why)
	}
	if arguments == nil {
		arguments = map[string]any{}
	}
	arguments["task"] = task
	line, err := json.Marshal(arguments)
	if err != nil {
		return answer{}, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return answer{}, fmt.Errorf("the Python process ended: %w", err)
	}
	reply, err := p.out.ReadBytes('\n')
	if err != nil {
		return answer{}, fmt.Errorf("the Python process did not answer %s: %w", task, err)
	}
	var a answer
	if err := json.Unmarshal(reply, &a); err != nil {
		return a, fmt.Errorf("the Python process answered %q: %w", reply, err)
	}
	if a.Missing != "" {
		return a, fmt.Errorf("%w: %s", errNoPeer, a.Missing)
	}
	if a.Error != "" {
		return a, fmt.Errorf("peer %s: %s", task, a.Error)
	}
	return a, nil
}

// timer returns a function that runs a task and gives its time.
func (p *peers) timer(task string, arguments map[string]any) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		a, err := p.ask(task, arguments)
		return time.Duration(a.Seconds * 1e9), err
	}
}

func (p *peers) stop() {
	p.stopIt.Do(func() {
		if p.cmd != nil {
			p.in.Close()
			p.cmd.Wait()
		}
	})
}
