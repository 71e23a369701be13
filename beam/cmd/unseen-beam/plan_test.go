package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// TestPlan checks what a plan says against what is known of its parts: costs that were measured, sizes that follow.
func TestPlan(t *testing.T) {
	plan := func(args ...string) (p scalePlan) {
		t.Helper()
		out, err := run(t, append([]string{"plan", "--json"}, args...)...)
		if err == nil {
			err = json.Unmarshal([]byte(out), &p)
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	small := plan("--nodes", "10000000", "--links", "100000000", "--dimension", "64", "--machines", "1", "--cores",
		"2", "--memory", "16")
	if small.Pairs != 500_000_000 || !small.VectorsInMemory || small.VectorBytes != 2.56e9 {
		t.Errorf("%+v", small)
	}
	// a gradient of 500 million pairs, and the rows that its shards name, on two cores
	rows := small.ReadBytes / (4 * 64) / 1e6
	want := (500*.25+rows*.22)/2 + startSeconds
	if rows < 100 || small.PassSeconds < .99*want || small.PassSeconds > 1.01*want {
		t.Errorf("a pass takes %v s, not %v", small.PassSeconds, want)
	}
	if measured := 114.; math.Abs(small.PassSeconds/measured-1) > .1 { // on Flink: bench/RESULTS.md
		t.Errorf("a pass takes %v s, and %v were measured", small.PassSeconds, measured)
	}
	args := []string{"--nodes", "320000000", "--links", "3200000000", "--dimension", "256", "--machines"}
	one, eight := plan(append(args, "4")...), plan(append(args, "8")...)
	if eight.VectorsInMemory != one.VectorsInMemory || one.CoreSeconds != eight.CoreSeconds ||
		!(one.FitSeconds > 1.5*eight.FitSeconds) || one.Shards < one.Pairs/one.ShardPairs {
		t.Errorf("4 machines %+v, 8 %+v", one, eight)
	}
	tight := plan(append(args, "8", "--memory", "64")...)
	if tight.VectorsInMemory || !(tight.WorkerBytes*64 < 64e9) || tight.Blocks <= eight.Blocks ||
		!(tight.ReadSeconds > eight.PassSeconds) {
		t.Errorf("with 64 GB %+v", tight)
	}
	out, err := run(t, "plan", "--nodes", "1000", "--links", "5000")
	if err != nil || !strings.Contains(out, "measured on one core") {
		t.Errorf("%q, %v", out, err)
	}
	for flag, value := range map[string]string{"--nodes": "0", "--machines": "-1", "--memory": "NaN"} {
		if _, err := run(t, "plan", "--nodes", "1000", "--links", "5000", flag, value); err == nil ||
			!strings.Contains(err.Error(), flag) {
			t.Errorf("%s %s: %v", flag, value, err)
		}
	}
}
