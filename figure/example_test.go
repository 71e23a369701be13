package figure_test

import (
	"fmt"

	"unseen/figure"
)

// A table is data: shown with its spread, and written to CSV with a column for every number.
func ExampleTable() {
	t := figure.Table{Name: "auc", Title: "AUC", Head: "method", Columns: []figure.Column{{Name: "AUC", Digits: 2}}}
	t.Add("bayes", figure.Spread(84.45, .12))
	fmt.Println(t.Rows[0].Cells[0].Format(2))
	fmt.Printf("%s", t.CSV())
	// Output:
	// 84.45 ± 0.12
	// method,auc,auc_sd
	// bayes,84.45,0.12
}
