package model_test

import (
	"encoding/json"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"unseen/graph"
	"unseen/model"
)

// papers are four papers in two fields, with vectors of two topics.
func papers() *graph.Graph {
	var b graph.Builder
	for k, field := range []string{"physics", "physics", "biology", "biology"} {
		node := graph.Node{ID: fmt.Sprint("paper ", k), Field: field, Time: time.Date(2000+5*k, 1, 1, 0, 0, 0, 0,
			time.UTC)}
		if _, err := b.AddNode(node); err != nil {
			log.Fatal(err)
		}
	}
	g, _, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	vectors, err := graph.NewVectors(g.Len(), 2)
	if err != nil {
		log.Fatal(err)
	}
	for i, vector := range [][]float32{{1, 0}, {.6, .8}, {.8, .6}, {0, 1}} {
		if err := vectors.Set(int32(i), vector); err != nil {
			log.Fatal(err)
		}
	}
	g, err = g.WithVectors(vectors)
	if err != nil {
		log.Fatal(err)
	}
	return g
}

func sigmoid(x float32) float64 { return 1 / (1 + math.Exp(-float64(x))) }

// must ends an example that cannot go on.
func must[T any](x T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return x
}

// Two models of one pair: would paper 3 link to paper 2, and was it shown?
func Example() {
	nodes := model.NodesOf(papers())
	link, propensity := must(model.NewDiagonal(nodes, false)), must(model.NewFieldMatrix(nodes))
	w, m := make([]float32, link.Size()), make([]float32, propensity.Size())
	link.Start(w, nil)
	propensity.StartAt(m, model.StartPropensity, nil)
	copy(w, []float32{1, 3}) // the second topic matters more

	pair := model.Batch{Sources: []int32{3}, Targets: []int32{2}}
	var z, s [1]float32
	link.Logits(z[:], w, pair)
	propensity.Logits(s[:], m, pair)
	fmt.Printf("ŷ = %.2f, π̂ = %.2f, seen with probability %.2f\n", sigmoid(z[0]), sigmoid(s[0]),
		sigmoid(z[0])*sigmoid(s[0]))
	// Output: ŷ = 0.86, π̂ = 0.30, seen with probability 0.26
}

func ExampleNodesOf() {
	nodes := model.NodesOf(papers())
	fmt.Println(nodes.Len(), nodes.Vectors.Dim(), nodes.Fields, nodes.FieldNames)
	// Output: 4 2 [1 1 2 2] [unknown physics biology]
}

func ExampleMadeFor() {
	link, err := model.NewDiagonal(model.NodesOf(papers()), false)
	constant, _ := model.NewConstant(.5)
	fmt.Println(model.MadeFor(link), model.MadeFor(constant), err)
	// Output: 4 0 <nil>
}

func ExampleNodes() {
	g := papers()
	nodes := model.NodesOf(g)
	nodes.Popularity = model.LogInDegree(g.Len(), []int32{0, 0, 1}) // the targets of the training links
	nodes.Age = model.Ages(g)
	fmt.Printf("%.1f %.1f\n", nodes.Popularity, nodes.Age)
	// Output: [1.1 0.7 0.0 0.0] [15.0 10.0 5.0 0.0]
}

func ExampleLogInDegree() {
	fmt.Printf("%.2f\n", model.LogInDegree(3, []int32{2, 2, 0}))
	// Output: [0.69 0.00 1.10]
}

func ExampleAges() {
	fmt.Printf("%.1f\n", model.Ages(papers()))
	// Output: [15.0 10.0 5.0 0.0]
}

func ExampleBatch() {
	batch := model.Batch{Sources: []int32{3, 3, 2}, Targets: []int32{1, 2, 0}}
	fmt.Println(batch.Len())
	// Output: 3
}

func ExampleNewLink() {
	nodes := model.NodesOf(papers())
	link := must(model.NewLink("low-rank", nodes, model.LinkOptions{Rank: 1}))
	fmt.Println(link.Kind(), link.Size())
	_, err := model.NewLink("bilinear", nodes, model.LinkOptions{})
	fmt.Println(strings.ReplaceAll(err.Error(), "; ", ";\n"))
	// Output:
	// low-rank 5
	// unsupported model: link model "bilinear";
	// have cosine, diagonal, diagonal-field, factors, low-rank, mlp, each with +bonus or without
}

func ExampleLinkKinds() {
	fmt.Println(strings.Join(model.LinkKinds(), " "))
	// Output: cosine diagonal diagonal-field factors low-rank mlp
}

func ExampleNewPropensity() {
	g := papers()
	nodes := model.NodesOf(g)
	nodes.Age = model.Ages(g)
	propensity := must(model.NewPropensity("field-matrix+age", nodes, model.PropensityOptions{}))
	fmt.Println(propensity.Kind(), propensity.Size())
	_, err := model.NewPropensity("fields", nodes, model.PropensityOptions{})
	fmt.Println(strings.NewReplacer("; ", ";\n", ", each", ",\neach").Replace(err.Error()))
	// Output:
	// field-matrix+age 10
	// unsupported model: propensity model "fields";
	// have constant, field-matrix, known, low-rank-fields, mlp,
	// each with any of +text, +popularity, +age, +person, +item, +activity
}

func ExamplePropensityKinds() {
	fmt.Println(strings.Join(model.PropensityKinds(), " "))
	// Output: constant field-matrix known low-rank-fields mlp
}

func ExampleNewDiagonal() {
	link := must(model.NewDiagonal(model.NodesOf(papers()), false))
	params := []float32{1, 3, -1} // w, b
	z := make([]float32, 2)
	link.Logits(z, params, model.Batch{Sources: []int32{3, 3}, Targets: []int32{2, 0}})
	fmt.Printf("%.1f\n", z)
	// Output: [0.8 -1.0]
}

func ExampleDiagonal_Backward() {
	link := must(model.NewDiagonal(model.NodesOf(papers()), false))
	grad := make([]float32, link.Size())
	dz := []float32{1, -2} // ∂loss/∂z of two pairs
	link.Backward(grad, make([]float32, link.Size()), model.Batch{Sources: []int32{3, 2}, Targets: []int32{2, 1}}, dz)
	fmt.Printf("%.2f\n", grad)
	// Output: [-0.96 -0.36 -1.00]
}

func ExampleNewLowRank() {
	link := must(model.NewLowRank(model.NodesOf(papers()), 1))
	params := []float32{1, 0, 0, 1, 0} // A, B, b: sources by their first topic, targets by their second
	z := make([]float32, 2)
	link.Logits(z, params, model.Batch{Sources: []int32{2, 1}, Targets: []int32{1, 2}})
	fmt.Printf("%.2f\n", z)
	// Output: [0.64 0.36]
}

func ExampleNewMLP() {
	link := must(model.NewMLP(model.NodesOf(papers()), 8, true))
	params := make([]float32, link.Size())
	link.Start(params, rand.NewPCG(1, 0))
	z := make([]float32, 2)
	link.Logits(z, params, model.Batch{Sources: []int32{3, 0}, Targets: []int32{0, 3}})
	fmt.Println(link.Size(), z[0] != z[1])
	// Output: 49 true
}

func ExampleNewCosine() {
	link := must(model.NewCosine(model.NodesOf(papers())))
	params := make([]float32, link.Size())
	link.Start(params, nil)
	z := make([]float32, 3)
	link.Logits(z, params, model.Batch{Sources: []int32{3, 3, 3}, Targets: []int32{0, 1, 2}})
	fmt.Printf("%.1f\n", z)
	// Output: [0.0 0.8 0.6]
}

func ExampleNewCrossBonus() {
	nodes := model.NodesOf(papers())
	naive := must(model.NewDiagonal(nodes, false))
	link := must(model.NewCrossBonus(naive, .5))
	z := make([]float32, 2)
	link.Logits(z, make([]float32, link.Size()), model.Batch{Sources: []int32{3, 3}, Targets: []int32{1, 2}})
	fmt.Println(link.Kind(), z)
	// Output: diagonal+bonus [0.5 0]
}

func ExampleInnerProduct() {
	nodes := model.NodesOf(papers())
	link := must(model.NewLink("diagonal", nodes, model.LinkOptions{}))
	params := []float32{1, 3, -1}
	q, offsets := make([]float32, nodes.Vectors.Dim()), make([]float32, nodes.FieldCount)
	if inner, ok := link.(model.InnerProduct); ok {
		inner.Query(q, offsets, params, 3)
	}
	h := make([]float32, nodes.Vectors.Dim())
	nodes.Vectors.Load(h, 2)
	fmt.Printf("z = %.1f\n", q[0]*h[0]+q[1]*h[1]+offsets[nodes.Fields[2]])
	// Output: z = 0.8
}

func ExampleLayout() {
	link := must(model.NewLink("diagonal-field", model.NodesOf(papers()), model.LinkOptions{}))
	for _, part := range link.(model.Layout).Parts() {
		fmt.Println(part.Name, part.Shape, part.Size())
	}
	// Output:
	// w [2] 2
	// b [1] 1
	// f [3 3] 9
}

func ExamplePropensityModel() {
	propensity := must(model.NewFieldMatrix(model.NodesOf(papers())))
	params := make([]float32, propensity.Size())
	for _, start := range []float64{.1, .3, .9} {
		propensity.StartAt(params, start, rand.NewPCG(1, 0))
		fmt.Printf("%.1f ", sigmoid(params[0]))
	}
	// Output: 0.1 0.3 0.9
}

func ExampleNewFieldMatrix() {
	propensity := must(model.NewFieldMatrix(model.NodesOf(papers())))
	params := make([]float32, propensity.Size())
	params[propensity.Cell(3, 0)] = 2 // from biology to physics
	s := make([]float32, 2)
	propensity.Logits(s, params, model.Batch{Sources: []int32{2, 1}, Targets: []int32{1, 2}})
	fmt.Println(s)
	// Output: [2 0]
}

func ExampleNewLowRankFields() {
	propensity := must(model.NewLowRankFields(model.NodesOf(papers()), 1))
	for _, part := range propensity.Parts() {
		fmt.Print(part.Name, part.Shape, " ")
	}
	// Output: a[3 1] b[3 1] u[3] v[3] c[1]
}

func ExampleNewFieldMLP() {
	propensity := must(model.NewFieldMLP(model.NodesOf(papers()), 8, false))
	params := make([]float32, propensity.Size())
	propensity.StartAt(params, .5, rand.NewPCG(1, 0))
	s := make([]float32, 1)
	propensity.Logits(s, params, model.Batch{Sources: []int32{3}, Targets: []int32{0}})
	fmt.Printf("π̂ = %.1f\n", sigmoid(s[0]))
	// Output: π̂ = 0.5
}

func ExampleNewKnown() {
	logged := []model.KnownExposure{{Source: 3, Target: 2, Propensity: 1}, {Source: 3, Target: 1, Propensity: .25}}
	propensity := must(model.NewKnown(model.NodesOf(papers()), logged, .01))
	s := make([]float32, 3)
	propensity.Logits(s, nil, model.Batch{Sources: []int32{3, 3, 3}, Targets: []int32{2, 1, 0}})
	fmt.Printf("%.2f %.2f %.2f\n", sigmoid(s[0]), sigmoid(s[1]), sigmoid(s[2]))
	// Output: 1.00 0.25 0.01
}

func ExampleNewConstant() {
	propensity := must(model.NewConstant(1))
	s := make([]float32, 1)
	propensity.Logits(s, nil, model.Batch{Sources: []int32{3}, Targets: []int32{0}})
	fmt.Println(s[0], sigmoid(s[0]))
	// Output: 40 1
}

func ExampleNewCovariates() {
	g := papers()
	nodes := model.NodesOf(g)
	nodes.Age = model.Ages(g)
	fields := must(model.NewFieldMatrix(nodes))
	propensity := must(model.NewCovariates(fields, nodes, model.Age))
	params := make([]float32, propensity.Size())
	params[propensity.Size()-1] = -1 // every decade divides the odds by e
	s := make([]float32, 1)
	propensity.Logits(s, params, model.Batch{Sources: []int32{3}, Targets: []int32{1}})
	fmt.Printf("%s %.1f\n", propensity.Kind(), s[0])
	// Output: field-matrix+age -1.0
}

// saved writes a small model and returns its path.
func saved(folder string, nodes model.Nodes) string {
	path := filepath.Join(folder, "papers.safetensors")
	err := model.Save(path, model.Model{
		Link:            must(model.NewDiagonal(nodes, false)),
		LinkParams:      []float32{1, 3, -1},
		Propensity:      must(model.NewConstant(1)),
		Method:          "naive",
		Hyperparameters: json.RawMessage(`{"epochs":20}`),
		Seed:            7,
		Certificate:     json.RawMessage(`{"risk":0.2}`),
		Extra:           []model.Tensor{{Name: "posterior.V", Shape: []int{1, 1}, Data: []float64{.5}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	return path
}

func ExampleSave() {
	folder := must(os.MkdirTemp("", "model"))
	defer os.RemoveAll(folder)
	nodes := model.NodesOf(papers())
	err := model.Save(filepath.Join(folder, "papers.safetensors"), model.Model{
		Link:       must(model.NewDiagonal(nodes, false)),
		LinkParams: []float32{1, 3, -1},
		Propensity: must(model.NewConstant(1)),
		Method:     "naive",
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleOpen() {
	folder := must(os.MkdirTemp("", "model"))
	defer os.RemoveAll(folder)
	file := must(model.Open(saved(folder, model.NodesOf(papers()))))
	fmt.Println(file.Metadata[model.KeyMethod], file.Metadata[model.KeySeed], file.Metadata[model.KeyHyperparameters])
	for _, tensor := range file.Tensors {
		fmt.Println(tensor.Name, tensor.Shape, tensor.Data)
	}
	// Output:
	// naive 7 {"epochs":20}
	// posterior.V [1 1] [0.5]
	// link.b [1] [-1]
	// link.w [2] [1 3]
}

func ExampleFile_Model() {
	folder := must(os.MkdirTemp("", "model"))
	defer os.RemoveAll(folder)
	nodes := model.NodesOf(papers())
	file := must(model.Open(saved(folder, nodes)))
	m := must(file.Model(nodes))
	fmt.Println(m.Method, m.Link.Kind(), m.LinkParams, m.Propensity.Kind(), string(m.Certificate))

	nodes.FieldNames = []string{"unknown", "physics", "botany"}
	_, err := file.Model(nodes)
	fmt.Println(strings.NewReplacer(folder+string(filepath.Separator), "", "; ", ";\n").Replace(err.Error()))
	// Output:
	// naive diagonal [1 3 -1] constant {"risk":0.2}
	// made for other nodes: papers.safetensors: its field 2 is "biology", the nodes' is "botany";
	// fit it on these nodes, or number the fields as then
}

func ExampleFile_Link() {
	folder := must(os.MkdirTemp("", "model"))
	defer os.RemoveAll(folder)
	nodes := model.NodesOf(papers())
	link, params, err := must(model.Open(saved(folder, nodes))).Link(nodes)
	fmt.Println(link.Kind(), params, err)
	// Output: diagonal [1 3 -1] <nil>
}

func ExampleFile_Propensity() {
	folder := must(os.MkdirTemp("", "model"))
	defer os.RemoveAll(folder)
	nodes := model.NodesOf(papers())
	propensity, params, err := must(model.Open(saved(folder, nodes))).Propensity(nodes)
	fmt.Println(propensity.Kind(), params, err)
	// Output: constant [] <nil>
}

func ExampleFile_Tensor() {
	folder := must(os.MkdirTemp("", "model"))
	defer os.RemoveAll(folder)
	file := must(model.Open(saved(folder, model.NodesOf(papers()))))
	tensor, ok := file.Tensor("posterior.V")
	fmt.Println(tensor.Data, ok)
	// Output: [0.5] true
}

// A File need not be a model: any tensors can be kept.
func ExampleFile_Save() {
	folder := must(os.MkdirTemp("", "model"))
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "any.safetensors")
	file := model.File{
		Metadata: map[string]string{"made_by": "hand"},
		Tensors:  []model.Tensor{{Name: "x", Shape: []int{2, 2}, Data: []float32{1, 2, 3, 4}}},
	}
	fmt.Println(file.Save(path))
	fmt.Println(must(model.Open(path)).Tensors)
	// Output:
	// <nil>
	// [{x [2 2] [1 2 3 4]}]
}

func ExampleModel_File() {
	nodes := model.NodesOf(papers())
	file := must(model.Model{
		Link:       must(model.NewDiagonal(nodes, false)),
		LinkParams: []float32{1, 3, -1},
		Propensity: must(model.NewConstant(.5)),
	}.File())
	fmt.Println(file.Metadata[model.KeyLink], file.Metadata[model.KeyPropensityOptions], file.Metadata[model.KeyFields])
	// Output: diagonal {"propensity":0.5} ["unknown","physics","biology"]
}
