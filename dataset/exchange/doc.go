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
//			if bad := lines.Fault(); bad != nil { // too long, or no UTF-8
//				if err := s.Reject(bad.Place, bad.Err, bad.Mend, lines.Bytes()); err != nil { return err }
//				continue
//			}
//			source, target, ok := bytes.Cut(lines.Bytes(), []byte(" "))
//			if !ok { if err := s.Reject(lines.Place(), exchange.ErrFormat, "write two words", lines.Bytes()); err != nil { return err }; continue }
//			if err := s.Link(string(source), string(target), lines.Place()); err != nil { return err }
//		}
//		return lines.Err()
//	}})
//
// # Bibliographies
//
// "openalex" reads works of OpenAlex, as files or as a snapshot's tree of folders. Abstracts are put together
// from their inverted index; the field is primary_topic.field, else the root concept with the highest
// score. References wait on disk until all works are known.
//
// "semantic-scholar" reads the datasets papers, abstracts and citations, told apart by their first records. The
// field is the first that Semantic Scholar's own classifier gave. Papers and abstracts wait on disk, so that
// memory holds the graph alone.
//
// "mag" reads tables of the Microsoft Academic Graph by their names and the order of their columns. The field is
// the root above the field of study with the highest score.
//
// All three leave out references to works that are not in the set, count them, and make nodes of them if
// asked to. They read only the parts of the JSON that they need.
package exchange
