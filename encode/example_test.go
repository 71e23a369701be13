package encode_test

import (
	"bytes"
	"context"
	"fmt"

	"unseen/encode"
)

var shelf = encode.TextList{
	{Title: "Bread", Body: "Flour, water, yeast and salt make a dough that is baked."},
	{Title: "Cake", Body: "Flour, sugar, butter and eggs, baked until golden."},
	{Title: "Pizza", Body: "A dough of flour and yeast, baked with cheese."},
	{Title: "Sails", Body: "The wind fills the sail and the boat heels."},
	{Title: "Knots", Body: "A rope, a sail and a boat: knots that hold in the wind."},
	{Title: "Tides", Body: "The boat rises with the water of the sea."},
}

func ExampleFit() {
	e, report, err := encode.Fit(context.Background(), shelf, encode.Settings{Dim: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	fmt.Println(report.Documents, "documents,", report.Dim, "components")
	bread, _ := e.Encode(encode.Text{Body: "yeast dough"})
	for _, text := range []string{"butter and sugar", "a rope in the wind"} {
		other, _ := e.Encode(encode.Text{Body: text})
		cosine := bread[0]*other[0] + bread[1]*other[1]
		fmt.Printf("%s: alike %t\n", text, cosine > .5)
	}
	// Output:
	// 6 documents, 2 components
	// butter and sugar: alike true
	// a rope in the wind: alike false
}

func ExampleLSA_Explain() {
	e, _, err := encode.Fit(context.Background(), shelf, encode.Settings{Dim: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	// nil weighs all components alike; a fitted diagonal model's weights go here
	why, err := e.Explain(shelf[0], shelf[2], nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var shared []string
	for _, term := range why.Terms {
		if term.Shared() {
			shared = append(shared, term.Name)
		}
	}
	fmt.Println(shared[:2], "of", len(shared))
	// Output:
	// [dough yeast] of 4
}

func ExampleRead() {
	e, _, err := encode.Fit(context.Background(), shelf, encode.Settings{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	var file bytes.Buffer
	if err := e.Write(&file); err != nil {
		fmt.Println(err)
		return
	}
	back, err := encode.Read(&file, int64(file.Len()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer back.Close()
	fmt.Println(back.Dim(), "components")
	_, known := back.Encode(encode.Text{Body: "astronomy"})
	fmt.Println("astronomy is known:", known)
	// Output:
	// 6 components
	// astronomy is known: false
}
