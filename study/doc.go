// Package study repeats the tables and figures of the paper, one file each, and says what came out
// as printed and what did not.
//
//	worlds (kind of fields × seed) ──► trainings (method), shared by the studies of one run
//	                                        │
//	study ──► Result: tables, figures, findings ──► terminal, JSON, CSV, a page
//
// A study returns numbers with their names and knows nothing of how they are shown.
//
//	results, err := study.Run(ctx, []string{"table1", "quality"}, study.Options{Quick: true}, study.Progress{})
//	for _, finding := range results[0].Findings {
//		fmt.Println(finding.Verdict, finding.Claim)
//	}
//	paths, err := study.Write("results", results)
//
// # Adding a study
//
// A study is a file with a [Study] in it and a line in [All]. Its run gets a lab, which has the options, counts
// the work for the progress bar, runs independent pieces side by side and remembers trainings: what table1 has
// trained, quality does not train again. Results do not depend on the number of threads nor on what ran before.
package study
