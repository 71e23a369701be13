package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"unseen/internal/amount"
	"unseen/report"
)

// reportFlags is the command line of unseen report.
type reportFlags struct {
	runs    []string
	output  string
	figures string
	title   string
	asJSON  bool
}

func newReport() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report RUN…",
		Short: "Write an HTML report on studies and models, with figures",
		Long: `Write one HTML file of results: tables, figures, warnings, the diagnosis of each
model, settings, seeds and checksums, with explanations. It needs no network,
follows light and dark mode, and can be printed.

A RUN is
  results.json       what unseen study --out or --json wrote
  a folder           with such files and models in it
  model.safetensors  what unseen fit -o wrote
  evaluation.json    what unseen evaluate -o wrote
  dial.json          what unseen dial -o wrote

--figures also writes every figure as SVG and PNG. The same runs give the same
bytes.`,
		Example: `  unseen study all --quick --out results
  unseen report results -o report.html
  unseen report results model.safetensors --figures figures`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("name a run: results of unseen study --out, or a model; for instance unseen " +
					"report results -o report.html")
			}
			f.runs = args
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := runReport(f)
			if err != nil {
				return err
			}
			return present(cmd, f.asJSON, r, r.print)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.output, "output", "o", "report.html", "write the page to this `file`")
	flags.StringVar(&f.figures, "figures", "", "also write the figures into this `folder`")
	flags.StringVar(&f.title, "title", "", "title of the page")
	jsonFlag(cmd, &f.asJSON)
	completeFlags(cmd, nil, "title")
	return cmd
}

// reportMade is what unseen report has to say.
type reportMade struct {
	Page     string   `json:"page"`
	Bytes    int64    `json:"bytes"`
	Sections int      `json:"sections"`
	Figures  []string `json:"figures,omitempty"`
}

func runReport(f reportFlags) (*reportMade, error) {
	if f.output == "" {
		return nil, usagef("--output is empty; give a file, such as report.html")
	}
	d, err := report.Open(f.title, f.runs...)
	if err != nil {
		return nil, err
	}
	if err := d.WriteHTML(f.output); err != nil {
		return nil, err
	}
	r := &reportMade{Page: f.output, Sections: len(d.Sections)}
	info, err := os.Stat(f.output)
	if err != nil {
		return nil, fmt.Errorf("the page was written and is gone: %w", err)
	}
	r.Bytes = info.Size()
	if f.figures != "" {
		if r.Figures, err = d.WriteFigures(f.figures); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *reportMade) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s: %d sections, %s bytes\n", r.Page, r.Sections, amount.Text(int(r.Bytes)))
	if err == nil && len(r.Figures) > 0 {
		_, err = fmt.Fprintf(w, "%d figures, each as SVG and PNG\n", len(r.Figures)/2)
	}
	return err
}
