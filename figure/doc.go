// Package figure holds tables and figures as data: numbers with their names, and the colours to draw them in. Code that
// computes numbers (package study) and code that draws them (package report) share it and need not know each other.
//
//	Table  = columns × rows of Cell        Cell: a number, mean ± sd, or text with the numbers behind it
//	Figure = HeatMap | LineChart | BarChart | IntervalChart
//
// Both have a JSON form that is read back unchanged, and a CSV form with one column for every number:
//
//	t := figure.Table{Name: "auc", Title: "AUC", Head: "method", Columns: []figure.Column{{Name: "AUC", Digits: 2}}}
//	t.Add("bayes", figure.Spread(84.45, .12))
//	fmt.Println(t.Rows[0].Cells[0].Format(2)) // 84.45 ± 0.12
//	os.Stdout.Write(t.CSV())
//
// A number may be missing: [Value] and [Values] hold NaN for it and write null, [Cell] is empty, and [Decimal] writes
// "n/a". No text made by this package contains "NaN".
package figure
