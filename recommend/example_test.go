package recommend_test

import (
	"context"
	"fmt"
	"log"

	"unseen/encode"
	"unseen/evaluate"
	"unseen/fit"
	"unseen/graph"
	"unseen/recommend"
	"unseen/sample"
)

// check stands for the error handling of a real program.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// shelf makes books of two fields, with vectors of their texts; every book links to older ones that are like it.
func shelf() (*graph.Graph, *encode.LSA, encode.TextList) {
	words := [][]string{{"flour", "yeast", "dough", "oven", "butter", "sugar"},
		{"wind", "sail", "boat", "rope", "tide", "anchor"}}
	var texts encode.TextList
	for i := range 60 {
		w := words[i%2]
		texts = append(texts, encode.Text{Title: fmt.Sprint("Book ", i), Body: fmt.Sprintf("About %s, %s and %s.",
			w[i/2%6], w[i/3%6], w[i/5%6])})
	}
	encoder, _, err := encode.Fit(context.Background(), texts, encode.Settings{Dim: 6})
	check(err)
	vectors, err := graph.NewVectors(len(texts), encoder.Dim())
	check(err)
	_, err = encoder.EncodeAll(context.Background(), texts, vectors, 0, nil)
	check(err)
	var b graph.Builder
	for i, text := range texts {
		_, err := b.AddNode(graph.Node{ID: fmt.Sprint(i), Field: []string{"kitchen", "sea"}[i%2], Title: text.Title})
		check(err)
		for j := i - 8; j >= 0 && j < i; j += 2 {
			check(b.AddLinkIndex(int32(i), int32(j)))
		}
	}
	g, _, err := b.Build()
	check(err)
	g, err = g.WithVectors(vectors)
	check(err)
	return g, encoder, texts
}

// shelved is a recommender of the shelf.
func shelved() *recommend.Recommender {
	g, encoder, texts := shelf()
	plan := sample.Plan{Split: sample.Whole, Seed: 1}
	prepared, err := sample.Prepare(context.Background(), g, sample.Options{Origin: sample.Origin{Plan: plan}})
	check(err)
	result, err := fit.Fit(context.Background(), prepared.Problem, fit.Settings{Method: "naive", Seed: 1})
	check(err)
	m, err := result.Model()
	check(err)
	r, err := recommend.New(g, m, recommend.Options{
		Encoder:  encoder, // for new texts, and for words that explain
		Document: func(i int32) (encode.Text, error) { return texts[i], nil },
	})
	check(err)
	return r
}

// The best books for a book, and why.
func ExampleRecommender_Top() {
	r := shelved()
	list, err := r.Top(context.Background(), recommend.Query{Source: r.Node(59), K: 3, Explain: true})
	check(err)
	for _, item := range list.Items {
		fmt.Println(item.Rank, item.Field, item.Why != nil)
	}
	// Output:
	// 1 sea true
	// 2 sea true
	// 3 sea true
}

// The best books for a text that is in none of them; its field is guessed.
func ExampleRecommender_Text() {
	r := shelved()
	source, probability, err := r.Text(context.Background(), encode.Text{Body: "A dough of flour and yeast."}, nil)
	check(err)
	list, err := r.Top(context.Background(), recommend.Query{Source: source, K: 3})
	check(err)
	fmt.Println(source.New(), probability > .5, list.Items[0].Field)
	// Output: true true kitchen
}

// What a setting costs and brings, in words.
func ExampleDial_Cost() {
	d := recommend.Dial{K: 10}
	fmt.Println(d.Cost(recommend.DialPoint{
		DialSetting: recommend.DialSetting{Diversity: .3},
		Loss:        evaluate.Band{Value: .021, Lower: .012, Upper: .031},
		Gain:        evaluate.Band{Value: .4, Lower: .37, Upper: .44},
	}))
	// Output: x = .3 gives up 2.1 points of Recall@10 (1.2 to 3.1) for 0.40 nats of entropy (0.37 to 0.44)
}
