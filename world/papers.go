package world

import (
	"math/rand/v2"
	"strings"

	"unseen/graph"
)

// PaperSettings say which papers Papers writes.
type PaperSettings struct {
	Nodes  int
	Fields []Field // nil means FieldsOfStudy
	Seed   uint64
}

// Papers writes papers with fields, times, titles and texts, the oldest first. A text is of a topic of its field and of
// one of the questions that all fields ask: papers of two fields have words in common where they ask the same. Made to
// vectors, by words, the texts can be planted with a truth by Plant; then words are what relevance is of.
func Papers(settings PaperSettings) (*graph.Graph, []string, error) {
	s := Settings{Nodes: settings.Nodes, Fields: settings.Fields, Dim: 2,
		Scenario: Scenario{Seed: settings.Seed}}.WithDefaults()
	if err := s.Validate(); err != nil {
		return nil, nil, err
	}
	about := drawTexts(s)
	lexicons, src := lexiconsOf(s.Fields), rand.New(newStream(s.Seed, sentenceStream, 0))
	var texts []string
	g, err := buildNodes(s, about, func(t text) string {
		title, abstract := lexicons[t.area].paper(int(t.topic), src)
		texts = append(texts, abstract)
		return title
	})
	return g, texts, err
}

// questions are what papers of any field ask, each with its own words.
var questions = []struct {
	name  string
	words []string
}{
	{"networks", []string{"hubs", "clusters", "diffusion", "connectivity"}},
	{"uncertainty", []string{"forecasts", "calibration", "confidence", "priors"}},
	{"a changing climate", []string{"warming", "drought", "carbon", "seasons"}},
	{"ageing", []string{"cohorts", "lifespan", "decline", "frailty"}},
	{"energy use", []string{"storage", "demand", "batteries", "heating"}},
	{"machine learning", []string{"classifiers", "features", "labels", "overfitting"}},
	{"privacy", []string{"consent", "anonymity", "disclosure", "surveillance"}},
	{"language", []string{"grammar", "vocabulary", "speech", "translation"}},
	{"imaging", []string{"microscopy", "resolution", "contrast", "cameras"}},
	{"simulation", []string{"grids", "solvers", "timesteps", "benchmarks"}},
	{"cooperation", []string{"punishment", "reciprocity", "altruism", "groups"}},
	{"feedback loops", []string{"oscillations", "thresholds", "amplification", "delays"}},
	{"shortages of water", []string{"irrigation", "rainfall", "reservoirs", "wells"}},
	{"children", []string{"parents", "schools", "playgrounds", "nutrition"}},
	{"cities", []string{"streets", "density", "commuting", "rents"}},
	{"rare events", []string{"tails", "outliers", "hazards", "insurance"}},
	{"ethics", []string{"fairness", "duties", "harm", "guidelines"}},
	{"measurement", []string{"sensors", "drift", "precision", "standards"}},
	{"symmetry", []string{"invariants", "reflections", "orbits", "lattices"}},
	{"competition", []string{"rivals", "territory", "prices", "entry"}},
}

// paper composes a title and an abstract of a topic and a question.
func (l lexicon) paper(topic int, src *rand.Rand) (title, abstract string) {
	about, q := l.topic(topic), questions[src.IntN(len(questions))]
	noun := func() string { return l.nouns[src.IntN(len(l.nouns))] }
	adjective := func() string { return adjectives[src.IntN(len(adjectives))] }
	switch src.IntN(4) {
	case 0:
		title = q.name + " in " + about
	case 1:
		title = q.name + " and the " + noun() + " of " + about
	case 2:
		title = about + ": " + noun() + " and " + q.name
	default:
		title = adjective() + " " + noun() + " in " + about + " and " + q.name
	}
	order := src.Perm(len(q.words))
	word := func(k int) string { return q.words[order[k]] }
	sentences := []string{
		"in " + about + " we ask about " + q.name + ", by " + word(0) + " and " + word(1),
		word(2) + " and " + word(3) + " explain " + adjective() + " " + noun() + " of " + about,
		"what " + q.name + " does to " + word(0) + " depends on " + word(2),
		adjective() + " " + word(1) + " follow from " + word(3),
	}
	src.Shuffle(len(sentences), func(a, b int) { sentences[a], sentences[b] = sentences[b], sentences[a] })
	for k, sentence := range sentences {
		sentences[k] = capital(sentence) + "."
	}
	return capital(title), strings.Join(sentences, " ")
}
