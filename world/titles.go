package world

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"unseen/graph"
)

// A lexicon is what titles of a field are made of.
type lexicon struct {
	topics, nouns []string
}

// vocabulary holds the fields of study: their share in percent, and their words.
var vocabulary = []struct {
	field string
	share float64
	lexicon
}{
	{"Art", .03, lexicon{
		[]string{"Baroque altarpieces", "landscape painting", "woodblock printing", "abstract sculpture",
			"film scores", "Gothic architecture", "portrait photography", "street murals"},
		[]string{"style", "patronage", "composition", "colour", "attribution", "reception"}}},
	{"Biology", 26.48, lexicon{
		[]string{"gene regulation in yeast", "bacterial motility", "plant root growth", "protein folding",
			"bird migration", "stem cell fate", "coral symbiosis", "insect olfaction"},
		[]string{"mutation", "expression", "signalling", "evolution", "transport", "variation"}}},
	{"Business", .38, lexicon{
		[]string{"family firms", "supply chains", "online retail", "corporate boards", "brand loyalty",
			"start-up funding", "airline pricing", "hotel management"},
		[]string{"strategy", "performance", "governance", "turnover", "innovation", "leadership"}}},
	{"Chemistry", 10.11, lexicon{
		[]string{"palladium catalysts", "ionic liquids", "peptide synthesis", "metal complexes",
			"radical polymerisation", "zeolite frameworks", "enzyme inhibitors", "atmospheric aerosols"},
		[]string{"reactivity", "selectivity", "kinetics", "oxidation", "solubility", "binding"}}},
	{"Computer Science", 9.40, lexicon{
		[]string{"neural translation", "graph databases", "program verification", "wireless routing",
			"image segmentation", "public-key protocols", "recommender systems", "cache memories"},
		[]string{"complexity", "inference", "scheduling", "robustness", "compression", "learning"}}},
	{"Economics", 2.51, lexicon{
		[]string{"minimum wages", "sovereign debt", "housing markets", "trade agreements", "school choice",
			"central banks", "rural credit", "carbon taxes"},
		[]string{"incentives", "elasticity", "inequality", "growth", "volatility", "welfare"}}},
	{"Engineering", 6.24, lexicon{
		[]string{"suspension bridges", "gas turbines", "robot arms", "power grids", "heat exchangers",
			"water networks", "electric drives", "concrete beams"},
		[]string{"control", "fatigue", "vibration", "efficiency", "reliability", "design"}}},
	{"Environmental Science", .13, lexicon{
		[]string{"river sediments", "urban air", "peat bogs", "landfill leachate", "lake algae", "forest fires",
			"drinking water", "plastic litter"},
		[]string{"pollution", "restoration", "emissions", "recovery", "toxicity", "runoff"}}},
	{"Geography", .48, lexicon{
		[]string{"coastal cities", "commuter belts", "mountain villages", "river deltas", "border regions",
			"shopping streets", "satellite land cover", "refugee routes"},
		[]string{"migration", "mapping", "settlement", "accessibility", "boundaries", "change"}}},
	{"Geology", 1.45, lexicon{
		[]string{"subduction zones", "volcanic ash", "limestone caves", "glacial valleys", "oil shales",
			"fault ruptures", "meteorite craters", "ocean ridges"},
		[]string{"dating", "deformation", "deposition", "erosion", "stratigraphy", "geochemistry"}}},
	{"History", .04, lexicon{
		[]string{"medieval guilds", "the spice trade", "colonial archives", "railway towns", "plague years",
			"court letters", "early newspapers", "wartime rationing"},
		[]string{"memory", "administration", "revolt", "exchange", "religion", "everyday life"}}},
	{"Materials Science", 3.06, lexicon{
		[]string{"graphene films", "magnesium alloys", "perovskite cells", "carbon fibres", "ceramic coatings",
			"polymer blends", "battery cathodes", "metallic glasses"},
		[]string{"hardness", "conductivity", "fracture", "microstructure", "corrosion", "annealing"}}},
	{"Mathematics", 7.17, lexicon{
		[]string{"elliptic curves", "random matrices", "minimal surfaces", "prime gaps", "wave equations",
			"finite groups", "convex bodies", "knot invariants"},
		[]string{"bounds", "rigidity", "convergence", "symmetry", "duality", "asymptotics"}}},
	{"Medicine", 21.28, lexicon{
		[]string{"type 2 diabetes", "breast cancer", "hip fracture", "asthma in children", "stroke rehabilitation",
			"chronic pain", "kidney transplants", "influenza vaccines"},
		[]string{"survival", "screening", "treatment", "risk factors", "outcomes", "diagnosis"}}},
	{"Philosophy", .03, lexicon{
		[]string{"personal identity", "moral luck", "scientific realism", "free will", "logical paradoxes",
			"political authority", "aesthetic judgement", "other minds"},
		[]string{"justification", "scepticism", "virtue", "meaning", "causation", "reasons"}}},
	{"Physics", 2.99, lexicon{
		[]string{"dark matter haloes", "superconducting qubits", "neutrino beams", "optical lattices",
			"plasma confinement", "black hole mergers", "spin glasses", "granular flows"},
		[]string{"scattering", "entanglement", "turbulence", "decay", "fluctuations", "resonance"}}},
	{"Political Science", .18, lexicon{
		[]string{"coalition governments", "voter turnout", "peace treaties", "local councils", "party manifestos",
			"trade unions", "federal courts", "protest movements"},
		[]string{"legitimacy", "representation", "polarisation", "bargaining", "accountability", "reform"}}},
	{"Psychology", 7.49, lexicon{
		[]string{"working memory", "infant attention", "social anxiety", "face recognition", "reading difficulties",
			"sleep and mood", "moral judgement", "habit formation"},
		[]string{"individual differences", "training", "development", "bias", "stress", "motivation"}}},
	{"Sociology", .55, lexicon{
		[]string{"urban neighbourhoods", "single parents", "online communities", "factory work",
			"religious congregations", "youth gangs", "care homes", "friendship networks"},
		[]string{"mobility", "identity", "trust", "segregation", "inequality", "solidarity"}}},
}

// otherField makes the words of a field that the vocabulary lacks from its name.
func otherField(name string) lexicon {
	name = strings.ToLower(name)
	var topics []string
	for _, branch := range []string{"theory", "practice", "methods", "models", "measurements", "history", "teaching",
		"policy"} {
		topics = append(topics, name+" "+branch)
	}
	return lexicon{topics, []string{"change", "design", "growth", "limits", "origins", "variation"}}
}

// lexiconsOf are those of fields.
func lexiconsOf(fields []Field) []lexicon {
	lexicons := make([]lexicon, len(fields))
	for k, f := range fields {
		lexicons[k] = otherField(f.Name)
		for _, v := range vocabulary {
			if v.field == f.Name {
				lexicons[k] = v.lexicon
			}
		}
	}
	return lexicons
}

// topic names a topic; there may be more than the words for them.
func (l lexicon) topic(k int) string {
	name := l.topics[k%len(l.topics)]
	if round := k / len(l.topics); round > 0 {
		name += ", series " + strconv.Itoa(round+1)
	}
	return name
}

var adjectives = []string{"adaptive", "comparative", "early", "hidden", "large-scale", "local", "long-term", "modern",
	"slow", "stable", "unequal", "unexpected"}

// title composes a title of a topic.
func (l lexicon) title(topic int, src *rand.Rand) string {
	about := l.topic(topic)
	first := src.IntN(len(l.nouns))
	second := (first + 1 + src.IntN(len(l.nouns)-1)) % len(l.nouns)
	noun, other, adjective := l.nouns[first], l.nouns[second], adjectives[src.IntN(len(adjectives))]
	var title string
	switch src.IntN(5) {
	case 0:
		title = noun + " and " + other + " in " + about
	case 1:
		title = "on the " + noun + " of " + about
	case 2:
		title = adjective + " " + noun + " in " + about
	case 3:
		title = about + ": " + adjective + " " + noun
	default:
		title = "the role of " + noun + " in " + about
	}
	return capital(title)
}

// capital begins a text with a capital letter.
func capital(text string) string {
	letter, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(letter)) + text[size:]
}

// Times of nodes: from the first of 1990 to the end of 2019, four times as many a year at the end as
// at the start.
var (
	firstTime = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
)

const growth = 4

// timeAt returns when the given share of all nodes had appeared.
func timeAt(share float64) time.Time {
	elapsed := math.Log1p(share*(growth-1)) / math.Log(growth)
	return firstTime.Add(time.Duration(elapsed * float64(lastTime.Sub(firstTime)))).Truncate(time.Second)
}

// buildNodes makes the graph's nodes, oldest first and without links, with titles that are asked for one by one.
func buildNodes(s Settings, texts []text, title func(text) string) (*graph.Graph, error) {
	times := rand.New(newStream(s.Seed, timeStream, 0))
	var b graph.Builder
	for i, t := range texts {
		node := graph.Node{
			ID:    "p" + strconv.Itoa(i),
			Field: s.Fields[t.field].Name,
			Title: title(t),
			Time:  timeAt((float64(i) + times.Float64()) / float64(s.Nodes)),
		}
		if _, err := b.AddNode(node); err != nil {
			return nil, err
		}
	}
	g, _, err := b.Build()
	return g, err
}
