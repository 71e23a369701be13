package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

//go:embed peers/kernels.py
var kernelsPy string

// peers is a Python process that loads the peer libraries and runs one task at a time.
type peers struct {
	why    string // why there is no process
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stopIt sync.Once
}

// answer is the result of a task.
type answer struct {
	Seconds float64   `json:"seconds"`
	IDs     [][]int32 `json:"ids"`
	Error   string    `json:"error"`   // the task failed
	Missing string    `json:"missing"` // the library is not installed
}

// peerEnvironment is the environment of the peers, on one thread. OpenBLAS does not know newer processors and would run
// at a fifth of its speed, which would be unfair. torch runs with its defaults; set ATEN_CPU_CAPABILITY=avx512 for its
// AVX-512 paths.
func peerEnvironment() []string {
	return append(os.Environ(), "OPENBLAS_CORETYPE=SkylakeX", "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1",
		"MKL_NUM_THREADS=1")
}

// startPeers starts the interpreter named by PYTHON, or the first python3 that has numpy.
func startPeers(log io.Writer) *peers {
	candidates := []string{"/usr/bin/python3", "python3"}
	if named := os.Getenv("PYTHON"); named != "" {
		candidates = []string{named}
	}
	for _, python := range candidates {
		if exec.Command(python, "-c", "import numpy").Run() != nil {
			continue
		}
		cmd := exec.Command(python, "-c", kernelsPy)
		cmd.Env = peerEnvironment()
		cmd.Stderr = log
		in, err := cmd.StdinPipe()
		if err != nil {
			return &peers{why: err.Error()}
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return &peers{why: err.Error()}
		}
		if err := cmd.Start(); err != nil {
			return &peers{why: err.Error()}
		}
		return &peers{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	}
	return &peers{why: "no python3 with numpy; set PYTHON to one"}
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
