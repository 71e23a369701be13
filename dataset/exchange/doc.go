// Package exchange imports networks of other programs' formats into a dataset folder, and exports them again.
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
// A format reads records and gives each to a Sink with the Place it came from. It never decides what happens to a bad
// record: it calls Sink.Reject, which returns an error where the import is strict and writes a row of rejects.csv where
// it is lenient. Records stream; only the graph stays in memory. Texts and vectors wait in temporary files.
//
//	func importPairs(ctx context.Context, o exchange.Options, s exchange.Sink) error {
//		lines, err := exchange.OpenLines(ctx, o.Paths[0], o)
//		if err != nil {
//			return err
//		}
//		defer lines.Close()
//		for err == nil && lines.Next() {
//			source, target, ok := bytes.Cut(lines.Bytes(), []byte(" "))
//			if bad := lines.Fault(); bad != nil { // too long, or not UTF-8
//				err = s.Reject(bad.Place, bad.Err, lines.Bytes())
//			} else if !ok {
//				err = s.Reject(lines.Place(), hint.Wrap(exchange.ErrFormat, "write two words"), lines.Bytes())
//			} else {
//				err = s.Link(string(source), string(target), lines.Place())
//			}
//		}
//		return cmp.Or(err, lines.Err())
//	}
//
//	exchange.Register(exchange.Format{Name: "pairs", Summary: "two words a line", Import: importPairs})
//
// # Bibliographies
//
// "openalex" reads works of OpenAlex, from files or from the folders of a snapshot. Abstracts are joined from their
// inverted index; the field is primary_topic.field, else the root concept with the highest score. References wait on
// disk until all works are known.
//
// "semantic-scholar" reads the datasets papers, abstracts and citations; the first record of a file says which one it
// is. The field is the first that Semantic Scholar's own classifier gave. Papers and abstracts wait on disk, so that
// memory holds only the graph.
//
// "mag" reads tables of the Microsoft Academic Graph by their names and the order of their columns. The field is the
// root above the field of study with the highest score.
//
// All three drop references to works outside the set and count them, or make nodes of them on request. They read only
// the parts of the JSON that they need.
package exchange
