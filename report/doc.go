// Package report renders studies, models and panels as one self-contained HTML file, and their figures as SVG and PNG.
//
//	study.Result, model.File, RiskChart, HeatPair, Curves, LoopChart, HiddenTable, DoctorVerdict
//	       │ Section
//	       ▼
//	Page ──► HTML: one file, no network, light and dark, prints
//	     ──► figures: SVG and PNG
//	     ──► JSON, which Open reads again
//
// In five lines:
//
//	d := report.Page{Title: "What we found", Summary: []string{"The corrected recommender is better."}}
//	d.Add(report.RiskChart{Title: "Which is better?", What: "risk (log-loss)", Rows: rows})
//	d.Add(report.HeatPair{Title: "Who is shown to whom", Labels: fields, True: π, Learned: estimated})
//	d.Add(report.DoctorVerdict{Findings: result.Findings, Fields: fields}, report.StudySection(studied))
//	err := d.WriteHTML("report.html")
//
// # Figures
//
// Every figure is drawn here, in Go, as a short list of boxes, lines, areas, marks and words; SVG and PNG are two ways
// to write that list. A charting library would be a megabyte of script that a page must carry and run before anything
// can be seen or printed. This page has no script: its figures are text of a few kilobytes, take their colours from the
// page's variables, so that they follow light and dark screens, and show their numbers on hover. An interactive page,
// as a service has, is better off with such a library.
//
// Each figure is on the page twice, for wide screens and for phones, and the style sheet shows one of them: a drawing
// scaled down to a phone could not be read. Files have one drawing each, in light colours. PNG letters are those of the
// Go fonts, which have Latin, Greek and Cyrillic; SVG uses the reader's fonts.
//
// # Rules
//
// The same page gives the same bytes. A missing number is left out of a drawing, and marked where its absence would
// mislead. Verdicts have a colour, a sign and a word, never a colour alone; text has a contrast of 4.5 or more.
// Everything that comes from outside is escaped, and the page's content security policy forbids it to load or run
// anything.
package report
