// Package study repeats the tables and figures of the paper, one file each, and says what came out
// as printed and what did not.
//
//	worlds (kind of fields × seed) ──┬► trainings (method), shared by the studies of one run
//	networks of the caller × seed ───┘      │
//	study ──► Result: tables, figures, claims ──► terminal, JSON, CSV, a page
//
// A study returns numbers with their names and knows nothing of how they are shown.
//
//	results, err := study.Run(ctx, []string{"table1", "quality"}, study.Options{Quick: true})
//	for _, claim := range results[0].Claims {
//		fmt.Println(claim.Verdict, claim.Statement)
//	}
//	paths, err := study.Write("results", results)
//
// # Networks
//
// table3, table4, certificate and clicks are about real networks, which [Options] carry. There the truth is not known:
// held-out links reward whoever repeats past exposure, so that every table has baselines that do just that.
//
//	o := study.Options{Networks: []study.RealNetwork{{Name: "papers", Graph: g}}}
//	results, err := study.Run(ctx, []string{"table4"}, o)
//
// # Adding a study
//
// A study is a file with a [Study] in it and a line in [All]. Its run gets a lab, which has the options, counts
// the work for the progress bar, runs independent pieces side by side and remembers trainings: what table1 has
// trained, quality does not train again. Results do not depend on the number of threads nor on what ran before.
package study
