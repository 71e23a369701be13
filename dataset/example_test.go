package dataset_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"unseen/dataset"
	"unseen/encode"
	"unseen/graph"
)

func Example() {
	ctx := context.Background()
	var b graph.Builder
	b.AddNode(graph.Node{ID: "doi:1", Field: "physics", Title: "On α"})
	b.AddNode(graph.Node{ID: "doi:2", Field: "biology"})
	b.AddLink("doi:2", "doi:1")
	g, _, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	parent, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "papers")
	content := dataset.Content{
		Graph: g,
		Text:  func(i int32) (string, error) { return []string{"An abstract.", ""}[i], nil },
	}
	if _, err := dataset.Write(ctx, dir, content, dataset.WriteOptions{}); err != nil {
		log.Fatal(err)
	}

	d, err := dataset.Open(ctx, dir, dataset.OpenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	text, err := d.Text(0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Graph().Len(), "nodes,", d.Graph().LinkCount(), "link")
	fmt.Println(d.Graph().Title(0)+":", text)
	// Output:
	// 2 nodes, 1 link
	// On α: An abstract.
}

func ExampleCheck() {
	ctx := context.Background()
	var b graph.Builder
	b.AddNode(graph.Node{ID: "a"})
	b.AddNode(graph.Node{ID: "b"})
	b.AddLink("b", "a")
	g, _, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	parent, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "letters")
	if _, err := dataset.Write(ctx, dir, dataset.Content{Graph: g}, dataset.WriteOptions{}); err != nil {
		log.Fatal(err)
	}
	d, err := dataset.Open(ctx, dir, dataset.OpenOptions{Tolerant: true})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	report, err := dataset.Check(ctx, d)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range report.Findings {
		fmt.Printf("%s: %s\n", f.Severity, f.Message)
	}
	// Output:
	// wrong: There are neither texts nor titles nor vectors, so nodes cannot be compared.
	// weak: No node has a field, and exposure is learned per pair of fields.
	// note: No node has a time, so order and splits come from the links alone.
}

func ExampleMapVectors() {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	// As numpy.save("v.npy", numpy.array([[1, 2], [3, 4]], dtype="<f2")) writes it.
	header := "\x93NUMPY\x01\x00\x46\x00{'descr': '<f2', 'fortran_order': False, 'shape': (2, 2), }          \n"
	numbers := "\x00\x3c\x00\x40\x00\x42\x00\x44"
	path := filepath.Join(folder, "v.npy")
	if err := os.WriteFile(path, []byte(header+numbers), 0o666); err != nil {
		log.Fatal(err)
	}
	v, err := dataset.MapVectors(path)
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	row := make([]float32, v.Dim())
	v.Load(row, 1)
	fmt.Println(v.Len(), "vectors; the last is", row)
	// Output:
	// 2 vectors; the last is [3 4]
}

// A dataset with texts, made in Go: the encoder is learned from the texts, makes their vectors, and
// is kept beside them, so that a recommender knows what to do with a new text.
func ExampleWrite_encoder() {
	ctx := context.Background()
	texts := encode.TextList{
		{Title: "Bread", Body: "Flour, water and yeast make a dough that is baked."},
		{Title: "Cake", Body: "Flour, sugar, butter and eggs, baked until golden."},
		{Title: "Sails", Body: "The wind fills the sail and the boat heels."},
		{Title: "Knots", Body: "A rope, a sail and a boat: knots that hold in the wind."},
	}
	var b graph.Builder
	for i, text := range texts {
		_, err := b.AddNode(graph.Node{ID: fmt.Sprint("book", i), Field: []string{"kitchen", "sea"}[i/2],
			Title: text.Title})
		check(err)
	}
	check(b.AddLink("book1", "book0"))
	check(b.AddLink("book3", "book2"))
	g, _, err := b.Build()
	check(err)

	encoder, _, err := encode.Fit(ctx, texts, encode.Settings{Dim: 3})
	check(err)
	defer encoder.Close()
	vectors, err := graph.NewVectors(g.Len(), encoder.Dim())
	check(err)
	defer vectors.Close()
	_, err = encoder.EncodeAll(ctx, texts, vectors, 0, nil)
	check(err)
	g, err = g.WithVectors(vectors)
	check(err)

	parent, err := os.MkdirTemp("", "unseen-")
	check(err)
	defer os.RemoveAll(parent)
	manifest, err := dataset.Write(ctx, filepath.Join(parent, "books"), dataset.Content{
		Graph:   g,
		Text:    func(i int32) (string, error) { return texts[i].Body, nil },
		Encoder: &dataset.StoredEncoder{Kind: encode.Kind, Write: encoder.Write},
	}, dataset.WriteOptions{})
	check(err)
	fmt.Println(manifest.Nodes, "nodes, vectors of", manifest.Vectors.Dimension, "numbers, encoder",
		manifest.Encoder.Kind)
	// Output: 4 nodes, vectors of 3 numbers, encoder builtin
}

// check stands for the error handling of a real program.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
