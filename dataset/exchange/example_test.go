package exchange_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"unseen/dataset"
	"unseen/dataset/exchange"
	"unseen/hint"
)

// A table of nodes and one of links become a dataset.
func ExampleImport() {
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	nodes, links := filepath.Join(folder, "papers.csv"), filepath.Join(folder, "citations.tsv")
	os.WriteFile(nodes, []byte("id,category,year\n00003,optics,1999\n00005,optics,2001\n"), 0o666)
	os.WriteFile(links, []byte("citing\tcited\n00005\t00003\n00005\t99999\n"), 0o666)
	dir := filepath.Join(folder, "papers")

	o := exchange.Options{Paths: []string{nodes, links}, Lenient: true}
	report, err := exchange.Import(context.Background(), "csv", dir, o)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Nodes, "nodes,", report.Links, "link,", report.Rejected, "rejected")

	d, err := dataset.Open(context.Background(), dir, dataset.OpenOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	g := d.Graph()
	fmt.Println(g.ID(1), "links to", g.ID(g.Out(1)[0]))
	// Output:
	// 2 nodes, 1 link, 1 rejected
	// 00005 links to 00003
}

// A dataset becomes files that other programs read.
func ExampleExport() {
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	list, dir, out := filepath.Join(folder, "list.txt"), filepath.Join(folder, "d"), filepath.Join(folder, "out")
	os.WriteFile(list, []byte("# who knows whom\nann bob\nbob eve\n"), 0o666)
	if _, err := exchange.Import(context.Background(), "edges", dir,
		exchange.Options{Paths: []string{list}}); err != nil {
		fmt.Println(err)
		return
	}
	if err := exchange.Export(context.Background(), dir, "csv", out, exchange.ExportOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	links, err := os.ReadFile(filepath.Join(out, "links.csv"))
	fmt.Print(string(links), err)
	// Output:
	// source,target
	// ann,bob
	// bob,eve
	// <nil>
}

// A format of one's own is a function that hands records to a sink.
func ExampleRegister() {
	exchange.Register(exchange.Format{
		Name: "arrows", Summary: "Lines like a -> b",
		Import: func(ctx context.Context, o exchange.Options, s exchange.Sink) error {
			s.NodesFromLinks()
			lines, err := exchange.OpenLines(ctx, o.Paths[0], o)
			if err != nil {
				return err
			}
			defer lines.Close()
			for lines.Next() {
				source, target, ok := bytes.Cut(lines.Bytes(), []byte(" -> "))
				if bad := lines.Fault(); bad != nil { // too long, or no UTF-8
					err = s.Reject(bad.Place, bad.Err, lines.Bytes())
				} else if !ok {
					err = s.Reject(lines.Place(), hint.Wrap(exchange.ErrFormat, "write a -> b"), lines.Bytes())
				} else {
					err = s.Link(string(source), string(target), lines.Place())
				}
				if err != nil {
					return err
				}
			}
			return lines.Err()
		},
	})
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "x.txt")
	os.WriteFile(path, []byte("a -> b\nb -> c\n"), 0o666)
	report, err := exchange.Import(context.Background(), "arrows", filepath.Join(folder, "d"),
		exchange.Options{Paths: []string{path}})
	fmt.Println(report.Nodes, report.Links, err)
	// Output: 3 2 <nil>
}
