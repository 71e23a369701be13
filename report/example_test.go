package report_test

import (
	"fmt"
	"os"
	"path/filepath"

	"unseen/figure"
	"unseen/fit"
	"unseen/report"
)

// A report of a panel of risks, a pair of heat maps, a loop and the doctor's verdict, as a page and as figures.
func Example() {
	folder, err := os.MkdirTemp("", "report")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)

	truth := .164
	d := report.Page{Title: "What we found",
		Summary: []string{"Judged by all that is relevant, the corrected recommender is better."}}
	d.Add(
		report.RiskChart{Title: "How large is the risk?", What: "risk (log-loss)", Rows: []report.RiskRow{
			{Name: "R_naive", Estimate: .239, Lower: .230, Upper: .248, Truth: &truth},
			{Name: "R_AP", Estimate: .163, Lower: .155, Upper: .171, Truth: &truth},
		}},
		report.HeatPair{Title: "Who is shown to whom", Labels: []string{"Art", "Law"},
			True: [][]float64{{.8, .1}, {.2, .9}}, Learned: [][]float64{{.75, .12}, {.2, .88}}},
		report.LoopChart{Title: "What becomes of it",
			Lines: []figure.Series{{Name: "naive", X: figure.Values{0, 1, 2}, Y: figure.Values{.4, .6, .8}}}},
		report.DoctorVerdict{Findings: &fit.Findings{Class: fit.Identified,
			Verdict: []string{"The scale is identified."}}},
	)
	if err := d.WriteHTML(filepath.Join(folder, "report.html")); err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range d.Sections {
		fmt.Printf("%s: %d figures\n", s.Title, len(s.Figures))
	}
	// Output:
	// How large is the risk?: 1 figures
	// Who is shown to whom: 1 figures
	// What becomes of it: 1 figures
	// The doctor's verdict: 0 figures
}

func ExamplePage_WriteFigures() {
	folder, err := os.MkdirTemp("", "figures")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	d := report.Page{Title: "What we found"}
	d.Add(report.RiskChart{Title: "How large is the risk?", What: "risk (log-loss)",
		Rows: []report.RiskRow{{Name: "R_AP", Estimate: .163, Lower: .155, Upper: .171}}})
	paths, err := d.WriteFigures(folder)
	for _, p := range paths {
		fmt.Println(filepath.Base(p))
	}
	fmt.Println(err)
	// Output:
	// panel-panel.svg
	// panel-panel.png
	// <nil>
}

// What unseen report does: a page of the files that unseen study --out and unseen fit -o wrote.
func ExampleOpen() {
	_, err := report.Open("Our studies", "no-such-folder")
	fmt.Println(err)
	// Output:
	// unusable run: no-such-folder: file does not exist; give results (.json) or a model (.safetensors)
}
