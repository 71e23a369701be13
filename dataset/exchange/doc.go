// Package exchange takes networks in other programs' formats into a dataset folder, and out again.
//
//	nodes.csv.gz ┐                        ┌ nodes.parquet
//	links.csv.gz ┼─► Format ──► Sink ──►  ┼ links.parquet      (package dataset)
//	features.npz ┘   reads      collects  └ vectors.npy, …
//
//	report, err := exchange.Import(ctx, "csv", "papers", exchange.Options{Paths: []string{"raw"}})
//	fmt.Println(report.Nodes, report.Links)
//	err = exchange.Export(ctx, "papers", "jsonl", "out", exchange.ExportOptions{})
//
// # Adding a format
//
// A format reads records and hands each to a Sink with the Place it came from. It never decides what to do
// with a bad one: it calls Sink.Reject, which is an error where the import is strict and a row of
// rejects.csv where it is lenient. Records stream; what stays in memory is the graph. Texts and vectors
// wait on disk, in files that vanish with the process.
//
//	exchange.Register(exchange.Format{Name: "pairs", Summary: "two words a line", Import: func(ctx context.Context, o exchange.Options, s exchange.Sink) error {
//		lines, err := exchange.OpenLines(ctx, o.Paths[0], o)
//		if err != nil { return err }
//		defer lines.Close()
//		for lines.Next() {
//			source, target, ok := bytes.Cut(lines.Bytes(), []byte(" "))
//			if !ok { if err := s.Reject(lines.Place(), exchange.ErrFormat, "write two words", lines.Bytes()); err != nil { return err }; continue }
//			if err := s.Link(string(source), string(target), lines.Place()); err != nil { return err }
//		}
//		return lines.Err()
//	}})
package exchange
