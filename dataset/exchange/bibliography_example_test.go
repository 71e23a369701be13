package exchange_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"unseen/dataset/exchange"
)

// inFolder writes files and returns their folder.
func inFolder(files map[string]string) string {
	folder, err := os.MkdirTemp("", "example-*")
	if err != nil {
		panic(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666); err != nil {
			panic(err)
		}
	}
	return folder
}

func tell(format, folder string, paths ...string) {
	report, err := exchange.Import(context.Background(), format, filepath.Join(folder, "papers"),
		exchange.Options{Paths: paths})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Nodes, "nodes,", report.Links, "links,", report.Fields, "fields,", report.Exposures, "exposures")
}

func ExampleImport_openAlex() {
	folder := inFolder(map[string]string{"works.jsonl": "\n" +
		`{"id":"https://openalex.org/W2","title":"New","publication_date":"2021-07-18",` +
		`"primary_topic":{"field":{"display_name":"Computer Science"}},` +
		`"referenced_works":["https://openalex.org/W1","https://openalex.org/W9"],` +
		`"abstract_inverted_index":{"shown":[1],"Not":[0]}}` + "\n" +
		`{"id":"https://openalex.org/W1","title":"Old","publication_year":1999,` +
		`"concepts":[{"display_name":"Physics","level":0,"score":0.7}]}` + "\n"})
	defer os.RemoveAll(folder)
	tell("openalex", folder, filepath.Join(folder, "works.jsonl"))
	// Output: 2 nodes, 1 links, 2 fields, 0 exposures
}

func ExampleImport_semanticScholar() {
	folder := inFolder(map[string]string{
		"papers.jsonl": `{"corpusid":1,"title":"Old","year":1999}` + "\n" +
			`{"corpusid":2,"title":"New","year":2021,"s2fieldsofstudy":[{"category":"Physics",` +
			`"source":"s2-fos-model"}]}`,
		"abstracts.jsonl": `{"corpusid":1,"abstract":"Long ago."}`,
		"citations.jsonl": `{"citingcorpusid":2,"citedcorpusid":1,"isinfluential":true}`,
	})
	defer os.RemoveAll(folder)
	tell("semantic-scholar", folder, folder)
	// Output: 2 nodes, 1 links, 1 fields, 0 exposures
}

func ExampleImport_mag() {
	folder := inFolder(map[string]string{
		"Papers.txt":               "11\t1\t\t\told\tOld\t\t1999\t\n12\t1\t\t\tnew\tNew\t\t2021\t2021-07-18\n",
		"PaperReferences.txt":      "12\t11\n",
		"FieldsOfStudy.txt":        "1\t1\tphysics\tPhysics\t\t0\n2\t1\toptics\tOptics\t\t1\n",
		"FieldOfStudyChildren.txt": "1\t2\n",
		"PaperFieldsOfStudy.txt":   "12\t2\t0.9\n11\t1\t0.4\n",
	})
	defer os.RemoveAll(folder)
	tell("mag", folder, folder)
	// Output: 2 nodes, 1 links, 1 fields, 0 exposures
}
