package figure

import "fmt"

// Figure is one drawing: exactly one of Heat, Lines, Bars and Intervals is set.
type Figure struct {
	Name  string     `json:"name"` // unique among the tables and figures of a result; part of a file name
	Title string     `json:"title"`
	Heat  *HeatMap   `json:"heat,omitempty"`
	Lines *LineChart `json:"lines,omitempty"`
	Bars  *BarChart  `json:"bars,omitempty"`

	Intervals *IntervalChart `json:"intervals,omitempty"`
	Caption   string         `json:"caption,omitempty"` // what to see in it, in a sentence or two
}

// HeatMap is a matrix of numbers with names on both sides.
type HeatMap struct {
	Title       string   `json:"title,omitempty"` // distinguishes it from the one beside it: "true"
	RowTitle    string   `json:"rowTitle"`
	ColumnTitle string   `json:"columnTitle"`
	Rows        []string `json:"rows"`
	Columns     []string `json:"columns"`
	Values      []Values `json:"values"` // by row
	Low         float64  `json:"low"`    // ends of the scale, so that two maps can share one
	High        float64  `json:"high"`
	Beside      *HeatMap `json:"beside,omitempty"` // a second map with the same names and scale
}

// LineChart is series over a common axis.
type LineChart struct {
	XTitle   string   `json:"xTitle"`
	YTitle   string   `json:"yTitle"`
	Series   []Series `json:"series"`
	LogX     bool     `json:"logX,omitempty"` // logarithmic axes leave out what is not above 0
	LogY     bool     `json:"logY,omitempty"`
	Shares   bool     `json:"shares,omitempty"`   // both axes run from 0 to 1: ROC and calibration curves
	Diagonal bool     `json:"diagonal,omitempty"` // y = x is drawn too
}

// Series is the points of one line, and a band around them where Low and High are not nil.
type Series struct {
	Name string `json:"name"`
	X    Values `json:"x"`
	Y    Values `json:"y"`
	Low  Values `json:"low,omitempty"`
	High Values `json:"high,omitempty"`

	// Reference marks what the others are compared with, such as the truth: it is drawn thin and dashed.
	Reference bool `json:"reference,omitempty"`
}

// BarChart is groups of bars, one bar per series in each group.
type BarChart struct {
	YTitle string      `json:"yTitle"`
	Groups []string    `json:"groups"`
	Series []BarSeries `json:"series"`
}

// BarSeries is one bar per group, and half the length of its whisker where Errors is not nil.
type BarSeries struct {
	Name   string `json:"name"`
	Values Values `json:"values"`
	Errors Values `json:"errors,omitempty"`
}

// IntervalChart is estimates with intervals, one below the other.
type IntervalChart struct {
	XTitle string        `json:"xTitle"`
	Legend string        `json:"legend,omitempty"` // what dots and whiskers are; "" means an estimate and its interval
	Digits int           `json:"digits,omitempty"` // after the decimal point; 0 leaves the choice to the drawing
	Rows   []IntervalRow `json:"rows"`
}

// IntervalRow is an estimate from Low to High, and the truth where it is known. What is NaN is not drawn.
type IntervalRow struct {
	Name     string `json:"name"`
	Group    string `json:"group,omitempty"` // rows of one group stand together below its name
	Estimate Value  `json:"estimate"`
	Low      Value  `json:"low"`
	High     Value  `json:"high"`
	Truth    *Value `json:"truth,omitempty"`
}

// Check returns an error if the figure is not of exactly one kind, or if a heat map lacks rows.
func (f Figure) Check() error {
	kinds := 0
	for _, set := range []bool{f.Heat != nil, f.Lines != nil, f.Bars != nil, f.Intervals != nil} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return fmt.Errorf("it is of %d kinds; set exactly one of heat, lines, bars and intervals", kinds)
	}
	for h := f.Heat; h != nil; h = h.Beside {
		if len(h.Values) != len(f.Heat.Rows) {
			return fmt.Errorf("heat map %q has %d rows of numbers for %d names; give one each", h.Title,
				len(h.Values), len(f.Heat.Rows))
		}
	}
	return nil
}
