package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"unseen/graph"
	"unseen/internal/amount"
	"unseen/internal/atomicfile"
	"unseen/internal/kern"
	"unseen/internal/safetext"
	"unseen/progress"
	"unseen/recommend"
)

// batchPart is how many nodes one file of lists holds. Tests make it smaller.
var batchPart = 4096

// batchPlan is what a folder of lists is of: written first, so that a resumed run goes on with the same.
type batchPlan struct {
	Kind   string            `json:"kind"`
	Model  string            `json:"model"` // SHA-256
	Naive  string            `json:"naive,omitempty"`
	Files  map[string]string `json:"files"` // of the dataset
	Format string            `json:"format"`
	K      int               `json:"k"`
	Linked bool              `json:"linked,omitempty"`
	// clusters of the index that are looked at for each list; 0: exact
	Clusters int    `json:"indexClusters,omitempty"`
	Sources  int    `json:"sources"`
	IDs      string `json:"ids,omitempty"` // SHA-256 of the list of nodes, if not all
	Parts    int    `json:"parts"`
}

// batchResult is what unseen recommend --all has to say.
type batchResult struct {
	Folder  string  `json:"folder"`
	Nodes   int     `json:"nodes"`
	Parts   int     `json:"parts"`
	Resumed int     `json:"resumed"` // parts that were there already
	Seconds float64 `json:"seconds"`

	Warnings []string `json:"warnings,omitempty"`
}

func (r *batchResult) print(w io.Writer) error {
	text := fmt.Sprintf("Lists of %s in %s, %s", amount.Of(r.Nodes, "node"), r.Folder, amount.Of(r.Parts, "part"))
	switch r.Resumed {
	case 0:
		text += ", in " + progress.Seconds(r.Seconds)
	case r.Parts:
		text += "; all were there already"
	default:
		text += fmt.Sprintf(", %s of which were there already; the rest in %s", amount.Text(r.Resumed),
			progress.Seconds(r.Seconds))
	}
	for _, note := range r.Warnings {
		text += "\n\n" + strings.TrimSuffix(wrap("note: "+note), "\n")
	}
	text += "\n"
	_, err := io.WriteString(w, text)
	return err
}

// runBatch writes the lists of many nodes, part by part; each is whole or not there.
func runBatch(ctx context.Context, f recommendFlags, t *display) (*batchResult, error) {
	defer t.clear()
	r, err := f.openRecommender(ctx, t)
	if err != nil {
		return nil, err
	}
	defer r.close()
	g := r.Graph()
	var sources []int32
	plan := batchPlan{Kind: "unseen-recommendations", Files: r.files, Format: f.format, K: f.k, Linked: f.linked}
	if plan.Format == "" {
		plan.Format = "jsonl"
	}
	if sources = g.Sources(); !f.all {
		if sources, err = nodesOf(g, f.ids); err != nil {
			return nil, err
		}
		if plan.IDs, err = atomicfile.Sum(f.ids); err != nil {
			return nil, err
		}
	}
	if plan.Model, err = atomicfile.Sum(f.model); err != nil {
		return nil, err
	}
	if f.naive != "" {
		if plan.Naive, err = atomicfile.Sum(f.naive); err != nil {
			return nil, err
		}
	}
	together := 1 // parts
	if r.ManyByIndex(f.k) {
		plan.Clusters = r.ManyRecall().Clusters
		together = max(mostTogether/(batchPart*max(f.k, 100)), 1)
	}
	plan.Sources, plan.Parts = len(sources), (len(sources)+batchPart-1)/batchPart
	if err := plan.begin(f.output, f.resume); err != nil {
		return nil, err
	}
	writer, err := newPartWriter(f.output, plan.Format, f.threads, r.Recommender)
	if err != nil {
		return nil, err
	}
	out := &batchResult{Folder: f.output, Nodes: len(sources), Parts: plan.Parts, Warnings: r.notes}
	began, meter := time.Now(), progress.NewMeter(t.report, "recommending", int64(plan.Parts))
	written := make(chan error, 1) // of the part before, which is written while the next one is computed
	written <- nil
	for part := 0; part < plan.Parts; {
		if _, err := os.Stat(batchFile(f.output, plan.Format, part)); err == nil {
			out.Resumed++
			meter.Skip(1)
			part++
			continue
		}
		last := min(part+together, plan.Parts) // of these, some may be there
		rows, err := r.Batch(ctx, sources[part*batchPart:min(last*batchPart, len(sources))],
			recommend.Query{K: f.k, Linked: f.linked})
		if failed := <-written; failed != nil {
			return nil, failed
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("stopped; %d of %d parts are in %s: run the same command with --resume to "+
					"continue", part, plan.Parts, f.output)
			}
			return nil, causedByFlags(err)
		}
		go func(part int) { written <- writer.write(part, rows) }(part)
		meter.Add(int64(last-part), nil)
		part = last
	}
	if err := <-written; err != nil {
		return nil, err
	}
	out.Seconds = time.Since(began).Seconds()
	return out, nil
}

// mostTogether is how many items of lists are made at once, where that is faster.
const mostTogether = 8 << 20

// nodesOf returns the nodes whose ids a file has, one per line.
func nodesOf(g *graph.Graph, path string) (nodes []int32, err error) {
	ids, err := readIDs(path)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, usagef("%s has no id; give one per line", path)
	}
	for line, id := range ids {
		i, err := findSource(g, id)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, line+1, err)
		}
		nodes = append(nodes, i)
	}
	return nodes, nil
}

// begin writes the plan, or compares it with the one that is there.
func (p batchPlan) begin(dir string, resume bool) error {
	path := filepath.Join(dir, "plan.json")
	want, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	want = append(want, '\n')
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return usagef("%s is a file, and -o is a folder for lists; give another", dir)
	}
	have, err := os.ReadFile(path)
	switch {
	case err == nil && !resume:
		return usagef("%s holds lists already; give another folder, or --resume to continue", dir)
	case err == nil && !bytes.Equal(have, want):
		return usagef("%s holds lists of another model, dataset or command; give another folder, or the same command",
			dir)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	_, missing := os.Stat(dir)
	if resume && missing != nil {
		return usagef("there is no %s to continue; leave --resume out", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return usagef("-o: cannot create the folder: %v; give another", err)
	}
	atomicfile.Sweep(path) // of a run that was killed before it had its plan
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		return usagef("%s is not empty; give a new folder", dir)
	}
	err = atomicfile.WriteBytes(path, want)
	if err != nil && missing != nil {
		os.Remove(dir) // nothing is in it, so there is nothing to continue
	}
	return err
}

// partWriter writes lists as parts.
type partWriter struct {
	dir, format string
	threads     int
	r           *recommend.Recommender
	quoted      [][]byte // the ids of all nodes as JSON
}

// newPartWriter quotes the ids.
func newPartWriter(dir, format string, threads int, r *recommend.Recommender) (*partWriter, error) {
	p := &partWriter{dir, format, threads, r, make([][]byte, r.Graph().Len())}
	for i := range p.quoted {
		var err error
		if p.quoted[i], err = json.Marshal(r.Graph().ID(int32(i))); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// write writes lists as parts, from one on, each whole or not at all.
// A run that is stopped keeps what it has made.
func (p *partWriter) write(part int, rows []recommend.Row) error {
	return kern.ChunksErr(context.Background(), len(rows), batchPart, kern.Threads(p.threads),
		func(_, chunk, from, to int) error {
			return atomicfile.Write(batchFile(p.dir, p.format, part+chunk), func(w io.Writer) error {
				return p.part(w, rows[from:to])
			})
		})
}

// part writes the content of a part.
func (p *partWriter) part(w io.Writer, rows []recommend.Row) error {
	r, g := p.r, p.r.Graph()
	if p.format == "csv" {
		out := csv.NewWriter(w)
		columns := []string{"source", "rank", "target", "link", "naive_rank"}
		if !r.HasNaive() {
			columns = columns[:4]
		}
		if err := out.Write(columns); err != nil {
			return err
		}
		for _, row := range rows {
			for k, j := range row.Targets {
				cells := []string{g.ID(row.Source), strconv.Itoa(k + 1), g.ID(j),
					strconv.FormatFloat(probabilityOf(row.Logits[k]), 'g', 6, 64)}
				if row.Naive != nil {
					rank := "" // beyond the list
					if row.Naive[k] > 0 {
						rank = strconv.Itoa(int(row.Naive[k]))
					}
					cells = append(cells, rank)
				}
				if err := out.Write(safetext.Cells(cells)); err != nil {
					return err
				}
			}
		}
		out.Flush()
		return out.Error()
	}
	var line []byte
	for _, row := range rows {
		line = append(append(line[:0], `{"source":`...), p.quoted[row.Source]...)
		line = append(line, `,"targets":[`...)
		for k, j := range row.Targets {
			line = append(comma(line, k), p.quoted[j]...)
		}
		line = append(line, `],"links":[`...)
		for k, z := range row.Logits {
			line = appendProbability(comma(line, k), probabilityOf(z))
		}
		line = append(line, ']')
		if len(row.Naive) > 0 {
			line = append(line, `,"naiveRanks":[`...)
			for k, rank := range row.Naive {
				line = strconv.AppendInt(comma(line, k), int64(rank), 10)
			}
			line = append(line, ']')
		}
		if _, err := w.Write(append(line, "}\n"...)); err != nil {
			return err
		}
	}
	return nil
}

// comma separates the k-th element of an array from those before it.
func comma(line []byte, k int) []byte {
	if k > 0 {
		return append(line, ',')
	}
	return line
}

// appendProbability writes a probability with six digits, without zeros at its end.
func appendProbability(line []byte, p float64) []byte {
	digits := 6
	for least := .1; p < least && digits < 12; least /= 10 {
		digits++
	}
	if p >= 1 || digits == 12 { // which is written as a power of ten
		short, _ := strconv.ParseFloat(strconv.FormatFloat(p, 'g', 6, 64), 64)
		text, _ := json.Marshal(short)
		return append(line, text...)
	}
	line = bytes.TrimRight(strconv.AppendFloat(line, p, 'f', digits, 64), "0")
	return bytes.TrimSuffix(line, []byte("."))
}

func probabilityOf(logit float32) float64 { return 1 / (1 + math.Exp(-float64(logit))) }
