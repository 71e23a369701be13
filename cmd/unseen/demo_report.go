package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"unseen/dataset"
	"unseen/evaluate"
	"unseen/figure"
	"unseen/internal/amount"
	"unseen/internal/atomicfile"
	"unseen/model"
	"unseen/report"
	"unseen/sample"
)

// write writes the folder: the data, the models and the report. Each is whole or not there.
func (d *demo) write(ctx context.Context, f demoFlags, content dataset.Content, data *sample.Origin) error {
	folder := filepath.Join(f.out, "dataset")
	manifest, err := dataset.Write(ctx, folder, content,
		dataset.WriteOptions{Provenance: dataset.Provenance{
			MadeBy: "unseen", Command: []string{"unseen", "demo", "--papers", fmt.Sprint(f.papers), "--seed",
				fmt.Sprint(f.seed)}, Seed: &f.seed,
		}})
	if err != nil {
		return err
	}
	data.Files = manifest.Checksums() // known only now, to the problem that both were fitted to
	path, beside := filepath.Join(f.out, "model.safetensors"), filepath.Join(f.out, "naive.safetensors")
	var checksum string
	for k, path := range []string{beside, path} {
		m, err := d.Recommenders[k].result.Model()
		if err != nil {
			return err
		}
		if err := model.Save(path, m); err != nil {
			return err
		}
		checksum = m.DataChecksum
	}
	d.evaluation.Dataset, d.evaluation.Held = "dataset", "as a separate sample of the same world"
	if err := writeEvaluation(d.evaluation, path); err != nil {
		return err
	}
	document := d.document(checksum)
	page := filepath.Join(f.out, "report.html")
	if err := document.WriteHTML(page); err != nil {
		return err
	}
	d.Files = []string{page, path, beside, folder}
	return nil
}

// writeEvaluation writes an evaluation beside its model, where unseen serve looks for it.
func writeEvaluation(e *evaluate.Evaluation, path string) error {
	sum, err := atomicfile.Sum(path)
	if err != nil {
		return err
	}
	e.Model = sum
	return atomicfile.Write(path+".evaluation.json", func(w io.Writer) error { return json.NewEncoder(w).Encode(e) })
}

// document is the report of the demonstration.
func (d *demo) document(checksum string) *report.Page {
	naive, bayes := d.Recommenders[0], d.Recommenders[1]
	last := d.Loop[len(d.Loop)-1]
	doc := &report.Page{
		Title: "What exposure hides",
		Summary: []string{
			fmt.Sprintf("A generated world of %s papers in %d fields, whose truth is known. Of all pairs %.1f%% are "+
				"relevant, but authors were shown %.0f%% of the papers of their own field and %.0f%% of others: "+
				"%s citations are observed.",
				amount.Text(d.Papers), d.Fields, 100*d.Relevant, 100*d.Same, 100*d.Cross, amount.Text(d.Citations)),
			fmt.Sprintf("Taken at face value (naive), the citations say that %.2f%% of pairs are relevant; "+
				"learned together with exposure (bayes), %.2f%%. The truth is %.2f%%.",
				100*naive.MeanLink, 100*bayes.MeanLink, 100*d.Relevant),
			fmt.Sprintf("Of the relevant pairs naive finds %.0f%%, bayes %.0f%%. The true risk of naive is "+
				"%.4f, of bayes %.4f.", 100*naive.Recall, 100*bayes.Recall, naive.Risk, bayes.Risk),
			fmt.Sprintf("A naive recommender that is trained on what it shows would keep %.0f of 100 "+
				"recommendations in the reader's own field after %d rounds, a corrected one %.0f; by relevance "+
				"alone it is %.0f.",
				100*last.Naive, last.Round, 100*last.Corrected, 100*d.LoopTruth),
		},
	}
	doc.Add(d.riskPanel(), report.DoctorVerdict{Findings: d.Findings, Fields: append([]string{"unknown"}, d.labels...)})
	doc.Add(report.HeatPair{
		Title: "What authors are shown, true and learned", Labels: d.labels, True: d.planted, Learned: d.learned,
		Text: []string{fmt.Sprintf("The chance that an author of one field is shown a paper of another. It was "+
			"not observed, but learned from the citations. It is off by %.0f%% on average.", 100*d.Propensity)},
	})
	if len(d.Hidden) > 0 {
		hidden := report.HiddenTable{
			Title: "Hidden by exposure",
			Text: []string{fmt.Sprintf("What “%s” (%s) does not cite and bayes recommends from other fields. "+
				"Of the %d newest papers, this one has the most to gain.", d.Source.Title, d.Source.Field,
				demoReaders)},
		}
		for _, h := range d.Hidden {
			hidden.Papers = append(hidden.Papers, report.HiddenPaper{
				Title: h.Title, Field: h.Field, SeenRank: h.Seen, NaiveRank: h.Naive, CorrectedRank: h.Corrected,
				Link:       h.Link,
				Propensity: h.Propensity,
				Reason: fmt.Sprintf("papers of %s are shown to %.0f%% of the authors of %s; truly relevant "+
					"with probability %.2f", h.Field, 100*h.Propensity, d.Source.Field, h.Truth),
			})
		}
		doc.Add(hidden)
	}
	doc.Add(report.Curves{
		Title: "Against relevance itself",
		Text:  []string{"Evaluated on what is truly relevant, whether it was shown or not."},
		Curves: []report.Curve{
			{Kind: report.ROC, Lines: d.roc}, {Kind: report.Calibration, Lines: d.calibration},
		},
	}, d.loopPart(), report.Section{
		Name: "settings", Title: "How it was done",
		Text: []string{"The world, the pairs and the training follow from the seed: the same command writes the " +
			"same report."},
		Facts: []report.Fact{
			{Name: "papers", Value: amount.Text(d.Papers)}, {Name: "citations", Value: amount.Text(d.Citations)},
			{Name: "pairs learned from", Value: amount.Text(d.Pairs) +
				": every citation, and four pairs without a citation for each"},
			{Name: "seed", Value: fmt.Sprint(d.Seed)}, {Name: "checksum of the data", Value: checksum},
		},
	})
	return doc
}

// riskPanel is what every estimator says of both, beside the truth.
func (d *demo) riskPanel() report.RiskChart {
	p := report.RiskChart{
		Title: "How good each is, and how good it looks", What: "risk (log-loss)",
		Text: []string{"The naive risk treats every missing citation as irrelevant. R_w, R_PU and R_AP weight " +
			"pairs by exposure; for both recommenders it is the exposure that bayes learned."},
	}
	for _, r := range d.Recommenders {
		truth := r.Risk
		for _, j := range r.Judged {
			p.Rows = append(p.Rows, report.RiskRow{Name: j.Name, Group: r.Method, Estimate: j.Estimate,
				Lower: j.Lower, Upper: j.Upper, Truth: &truth})
		}
	}
	return p
}

// loopPart draws the forecast.
func (d *demo) loopPart() report.LoopChart {
	var rounds, naive, corrected, truth figure.Values
	for _, r := range d.Loop {
		rounds = append(rounds, float64(r.Round))
		naive, corrected, truth = append(naive, r.Naive), append(corrected, r.Corrected), append(truth, d.LoopTruth)
	}
	return report.LoopChart{
		Title: "Where each would lead",
		Text: []string{"The forecast follows the theory's process, field by field: what is shown is linked " +
			"to, what is linked to is shown more. Correcting for exposure stops the growth that exposure " +
			"drives; a field that is more relevant to itself still grows. The forecast treats all papers of a " +
			"field alike; unseen loop simulates the loop paper by paper."},
		Caption: "Share of recommendations that stay in the reader's own field, all fields together. A line " +
			"that climbs is a recommender that narrows.",
		Lines: []figure.Series{
			{Name: "naive", X: rounds, Y: naive}, {Name: "corrected", X: rounds, Y: corrected},
			{Name: "relevance alone", X: rounds, Y: truth, Reference: true},
		},
	}
}
