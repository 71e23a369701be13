package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"unseen/engine"
	"unseen/gpu"
)

// Where heavy work is done.
var devices = []string{"cpu", "gpu", "auto"}

// rowFormats are how a card keeps rows.
var rowFormats = []string{string(gpu.Float32), string(gpu.Float16), string(gpu.BFloat16)}

// deviceFlags choose what does the heavy work.
type deviceFlags struct{ device, rows string }

// register adds --device, which says what does some work.
func (f *deviceFlags) register(cmd *cobra.Command, work string) {
	f.rows = string(gpu.Float32)
	cmd.Flags().StringVar(&f.device, "device", "cpu", "what "+work+": "+strings.Join(devices, ", "))
	completeFlags(cmd, map[string][]string{"device": devices})
}

// registerRows adds --rows.
func (f *deviceFlags) registerRows(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.rows, "rows", string(gpu.Float32), "how a card keeps vectors: "+
		strings.Join(rowFormats, ", "))
	completeFlags(cmd, map[string][]string{"rows": rowFormats})
}

// check refuses what is no device.
func (f *deviceFlags) check(changed func(name string) bool) error {
	if !slices.Contains(devices, f.device) {
		return usagef("--device is %q; use %s", f.device, strings.Join(devices, ", "))
	}
	if !slices.Contains(rowFormats, f.rows) {
		return usagef("--rows is %q; use %s", f.rows, strings.Join(rowFormats, ", "))
	}
	if f.device == "cpu" && changed("rows") {
		return usagef("--rows is for a graphics card; add --device gpu")
	}
	return nil
}

// open returns the engine, what closes it, and what there is to say about it. auto takes a card if there is one.
func (f *deviceFlags) open(threads int) (e engine.Engine, done func(), warnings []string, err error) {
	onCPU := engine.CPU{Threads: threads}
	if f.device == "cpu" || f.device == "" {
		return onCPU, func() {}, nil, nil
	}
	card, err := gpu.Open(0)
	if errors.Is(err, gpu.ErrNoCard) && f.device == "auto" {
		return onCPU, func() {}, nil, nil
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("--device %s: %w; leave it out to use the processor", f.device, err)
	}
	onCard, err := gpu.New(card, gpu.Settings{Threads: threads, Format: gpu.RowFormat(f.rows)})
	if err != nil {
		card.Close()
		return nil, nil, nil, err
	}
	if !card.Tried() {
		warnings = append(warnings, "cards like "+card.Name+" were never tried: compare a result with --device cpu")
	}
	return onCard, func() { _, _ = onCard.Close(), card.Close() }, warnings, nil
}
