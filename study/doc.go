// Package study reproduces the tables and figures of the paper, one file each, and says which of its claims hold.
//
//	worlds (kind of fields × seed) ──┬► trainings (method), shared by the studies of one run
//	networks of the caller × seed ───┘      │
//	study ──► Result: tables, figures, claims ──► terminal, JSON, CSV, a page
//
// A study returns numbers with their names (package figure) and does not know how they are shown.
//
//	results, err := study.Run(ctx, []string{"table1", "quality"}, study.Options{Quick: true})
//	for _, claim := range results[0].Claims {
//		fmt.Println(claim.Verdict, claim.Statement)
//	}
//	paths, err := study.Write("results", results)
//
// # Networks
//
// table3, table4, certificate and clicks are about real networks, given by [Options]. There the truth is not known:
// held-out links reward a model that repeats past exposure, so every table has baselines that do exactly that.
//
//	o := study.Options{Networks: []study.RealNetwork{{Name: "papers", Graph: g}}}
//	results, err := study.Run(ctx, []string{"table4"}, o)
//
// # What was shown
//
// exposed is about people and items of which it is known what was shown to whom ([OpenShown]), so that both halves of a
// model can be held against reality: what people like among what they were shown, and what they were shown.
//
//	set, err := study.OpenShown("conversation", study.ShownOptions{})
//	results, err := study.Run(ctx, []string{"exposed"}, study.Options{Shown: []*study.ShownSet{set}})
//
// # Adding a study
//
// A study is a file with a [Study] in it and an entry in [All]. Its run gets a lab, which holds the options, counts the
// work for the progress bar, runs independent tasks side by side and keeps trainings: what table1 has trained, quality
// does not train again. Results depend neither on the number of threads nor on which studies ran before.
package study
