package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"unseen/internal/kern"
	"unseen/internal/normal"
	"unseen/risk"
)

// Assume implements Design.
func (s *cpuDesign) Assume(ctx context.Context, o Outcomes, a Assumptions) (AssumedLikelihood, error) {
	n := s.x.Rows()
	if err := cmp.Or(o.validate(n), a.validate(n)); err != nil {
		return nil, err
	}
	l := &cpuAssumed{cpuDesign: s, outcomes: o, assumed: a, dependence: -1}
	for i, t := range a.Terms {
		switch t.Kind {
		case InLink:
			l.inLink = append(l.inLink, i)
		case InExposure:
			l.inExposure = append(l.inExposure, i)
		case LinkInExposure:
			l.text = append(l.text, i)
		case Dependence:
			l.dependence = i
		}
	}
	if o.Leverage != nil {
		l.deviation, l.spread = make([]float64, n), make([]spread, n)
		for k, x := range o.Leverage {
			l.deviation[k] = min(math.Sqrt(float64(x)), 80)
			for i, at := range nodesOf(l.deviation[k]).sides() {
				l.spread[k][i] = math.Exp(l.deviation[k] * at)
			}
		}
	}
	return l, ctx.Err()
}

// cpuAssumed is an AssumedLikelihood in memory.
//
// Of a pair, θ enters through four directions: its products (x, 1), its cell, z within s, and t. A pair's slopes and
// information are found along these, and handed on to the numbers of θ that lie there.
type cpuAssumed struct {
	*cpuDesign
	outcomes  Outcomes
	assumed   Assumptions
	deviation []float64 // of each logit; nil takes logits as certain
	spread    []spread  // e^(deviation·at) for the points above it

	inLink, inExposure, text []int // places among the terms
	dependence               int   // −1 for none
}

// The directions in which θ enters a pair's likelihood.
const (
	alongProducts = iota
	alongCell
	alongText
	alongTogether
	directions
)

// direction returns the direction in which a term lies.
func (k TermKind) direction() int {
	return [...]int{InExposure: alongCell, InLink: alongProducts, LinkInExposure: alongText,
		Dependence: alongTogether}[k]
}

// size is the number of parameters.
func (l *cpuAssumed) size() int { return l.cpuDesign.size() + len(l.assumed.Terms) }

func (l *cpuAssumed) misfit(theta []float64) error {
	return fmt.Errorf("%w: %d parameters for assumptions with %d", ErrShape, len(theta), l.size())
}

// Close implements LogLikelihood: the memory is the collector's.
func (l *cpuAssumed) Close() error { return nil }

// value is v of a term and a pair.
func (t *AssumedTerm) value(k int) float64 {
	if t.Value == nil {
		return 1
	}
	return float64(t.Value[k])
}

// pairAt is a pair at one θ: where its logit is believed to lie, and how s follows from it.
type pairAt struct {
	z, deviation float64
	spread       *spread        // nil if the logit is certain
	s, bend      float64        // s = s + bend·likeness
	copula       *normal.Copula // of t; of −t where one of two events is the complement
	complement   *normal.Copula
	rate         float64
	seen         risk.Observation
}

// pairAt returns what all pairs have in common at θ; place makes a pair of it.
func (l *cpuAssumed) pairAt(theta []float64) *pairAt {
	p := &pairAt{rate: 1}
	if l.dependence >= 0 {
		t := theta[l.cpuDesign.size()+l.dependence]
		correlation := math.Tanh(max(-mostDependent, min(mostDependent, t)))
		p.copula, p.complement = normal.NewCopula(correlation), normal.NewCopula(-correlation)
	}
	return p
}

// place makes p pair k, given the product of its row and (w, b).
func (l *cpuAssumed) place(p *pairAt, k int, product float32, theta []float64) {
	terms := theta[l.cpuDesign.size():]
	p.z, p.s, p.bend = float64(product), theta[l.d+1+int(l.cell[k])], 0
	for _, i := range l.inLink {
		p.z += terms[i] * l.assumed.Terms[i].value(k)
	}
	for _, i := range l.inExposure {
		p.s += terms[i] * l.assumed.Terms[i].value(k)
	}
	for _, i := range l.text {
		p.bend += terms[i] * l.assumed.Terms[i].value(k)
	}
	if l.deviation != nil {
		p.deviation, p.spread = l.deviation[k], &l.spread[k]
	}
	if l.rate != nil {
		p.rate = l.rate[k]
	}
	p.seen.Linked = l.outcomes.Linked[k]
	if l.outcomes.Exposure != nil {
		p.seen.Exposure = l.outcomes.Exposure[k]
	}
}

// nodes are the points over which a pair's logit is averaged, and their weights: Gauss and Hermite's, and three for
// logits that are nearly certain, where they are as good. The first is the logit itself, and the others come in pairs,
// one above and one below.
type nodes struct {
	at, of []float64
	tally  []int // the places of their losses in a tally
}

const mostNodes = 7

var (
	sevenNodes = nodes{[]float64{0, hermiteAt[0], -hermiteAt[0], hermiteAt[1], -hermiteAt[1], hermiteAt[2],
		-hermiteAt[2]}, []float64{hermiteCentre, hermiteWeight[0], hermiteWeight[0], hermiteWeight[1],
		hermiteWeight[1], hermiteWeight[2], hermiteWeight[2]}, []int{0, 1, 1, 2, 2, 3, 3}}
	threeNodes = nodes{[]float64{0, math.Sqrt(3), -math.Sqrt(3)}, []float64{2. / 3, 1. / 6, 1. / 6},
		[]int{4, 5, 5}}
	oneNode = nodes{[]float64{0}, []float64{1}, []int{0}}
)

// nodesOf returns those of a logit with a standard deviation.
func nodesOf(deviation float64) *nodes {
	if deviation < .3 {
		return &threeNodes
	}
	return &sevenNodes
}

// sides returns the points above the logit.
func (n *nodes) sides() (at [3]float64) {
	for i := 1; i < len(n.at); i += 2 {
		at[i/2] = n.at[i]
	}
	return at
}

// nodes returns those of a pair.
func (l *cpuAssumed) nodes(p *pairAt) *nodes {
	if l.deviation == nil {
		return &oneNode
	}
	return nodesOf(p.deviation)
}

// each calls f with what is believed of the pair at each point of its logit.
func (l *cpuAssumed) each(p *pairAt, f func(weight float64, b *pairBelief)) {
	var b pairBelief
	nodes := l.nodes(p)
	for i, at := range nodes.at {
		l.believe(p, p.z+p.deviation*at, &b)
		f(nodes.of[i], &b)
	}
}

// pairBelief is what is believed of a pair at one logit, before s is made to follow z.
type pairBelief struct {
	pairAt           *pairAt
	likeness, rise   float64
	shown, hidden    event
	wanted, unwanted event
	linked           event   // shown and wanted
	unlinked         float64 // the chance of all else
}

// event is something that happens with a chance, and the slopes of its logarithm along (z, s, t).
type event struct {
	chance float64
	slopes [3]float64
}

func (l *cpuAssumed) believe(p *pairAt, z float64, b *pairBelief) {
	y, restY, slope := l.assumed.Response.at(z)
	b.pairAt = p
	b.likeness, b.rise = l.assumed.Response.likeness(z, y, restY, slope)
	pi, restPi := p.exposure(b.likeness)
	b.shown, b.hidden = event{pi, [3]float64{1: restPi}}, event{restPi, [3]float64{1: -pi}}
	b.wanted, b.unwanted = event{y, [3]float64{slope}}, event{restY, [3]float64{-slope * y / restY}}
	b.linked = l.both(p, b.shown, b.wanted, 1)
	if b.unlinked = 1 - b.linked.chance; b.unlinked < .1 { // where the difference would lose digits
		b.unlinked = restPi + l.both(p, b.shown, b.unwanted, -1).chance
	}
}

// both returns the chance of an exposure and a relevance together. Where one of them is the
// complement, the copula is that of −t, and the sign −1.
func (l *cpuAssumed) both(p *pairAt, a, b event, sign float64) event {
	if l.dependence < 0 {
		return event{max(a.chance*b.chance, 1e-300), [3]float64{b.slopes[0], a.slopes[1]}}
	}
	copula := p.copula
	if sign < 0 {
		copula = p.complement
	}
	c, byA, byB, byT := copula.Slopes(a.chance, b.chance)
	return event{max(c, 1e-300), [3]float64{byB * b.slopes[0], byA * a.slopes[1], sign * byT}}
}

// along turns slopes along (z, s, t) into slopes along the four directions.
func (b *pairBelief) along(g [3]float64) [directions]float64 {
	return [directions]float64{g[0] + b.pairAt.bend*b.rise*g[1], g[1], g[1] * b.likeness, g[2]}
}

// possible returns all that can be seen of the sampled pair, in a fixed order: linked; not linked;
// of one whose exposure is logged, not linked though shown, and not shown.
func (l *cpuAssumed) possible(b *pairBelief, out *[3]event) []event {
	p := b.pairAt
	c, q, r := b.linked.chance, b.unlinked, p.rate
	switch {
	case p.seen.Exposure == risk.Unlogged:
		sampled := c + r*q
		out[0].chance, out[1].chance = c/sampled, r*q/sampled
		for i, x := range b.linked.slopes {
			out[0].slopes[i], out[1].slopes[i] = out[1].chance/q*x, -out[0].chance/q*x
		}
		return out[:2]
	case p.seen.Exposure.IsOffered(): // given that it was not linked before
		out[0], out[1] = l.both(p, b.hidden, b.wanted, -1), b.unwanted
		out[0], out[1] = missed(out[0], out[1], p.seen.Exposure.Seen())
		for k := range 2 {
			out[k].chance /= q
			for i, x := range b.linked.slopes {
				out[k].slopes[i] += c / q * x
			}
		}
		return out[:2]
	}
	out[0], out[1], out[2] = b.linked, l.both(p, b.shown, b.unwanted, -1), b.hidden
	out[1].chance *= r
	out[2].chance *= r
	sampled := c + r*q
	for k := range out {
		out[k].chance /= sampled
		for i, x := range b.linked.slopes {
			out[k].slopes[i] -= (1 - r) * c / sampled * x
		}
	}
	return out[:3]
}

// missed moves what of the wanted is not seen to the unwanted; slopes are those of logarithms.
func missed(wanted, unwanted event, seen float64) (event, event) {
	if seen == 1 {
		return wanted, unwanted
	}
	hidden := (1 - seen) * wanted.chance
	rest := event{chance: unwanted.chance + hidden}
	for i := range rest.slopes {
		rest.slopes[i] = (unwanted.chance*unwanted.slopes[i] + hidden*wanted.slopes[i]) / rest.chance
	}
	wanted.chance *= seen
	return wanted, rest
}

// observed is the place of what was seen among the outcomes.
func (p *pairAt) observed() int {
	switch {
	case p.seen.Linked:
		return 0
	case p.seen.Exposure == risk.Unexposed:
		return 2
	}
	return 1
}

// slopes returns −log likelihood of a pair, but for the part that the tally keeps, and sets its slopes.
func (l *cpuAssumed) slopes(p *pairAt, losses *tally, g *[directions]float64) (loss float64) {
	if p.seen.Exposure == risk.Unlogged {
		l.simpleSlopes(p, losses, g)
		return 0
	}
	clear(g[:])
	var room [3]event
	l.each(p, func(weight float64, b *pairBelief) {
		seen := l.possible(b, &room)[p.observed()]
		loss -= weight * math.Log(max(seen.chance, 1e-300))
		for i, x := range b.along(seen.slopes) {
			g[i] -= weight * x
		}
	})
	return loss
}

// information sets Fisher's information of a pair along the four directions.
func (l *cpuAssumed) information(p *pairAt, m *[directions][directions]float64) {
	if *m = ([directions][directions]float64{}); p.seen.Exposure == risk.Unlogged {
		l.simpleInformation(p, m)
		return
	}
	var room [3]event
	l.each(p, func(weight float64, b *pairBelief) {
		for _, o := range l.possible(b, &room) {
			g := b.along(o.slopes)
			for i, x := range g {
				for j, y := range g[:i+1] {
					m[i][j] += weight * o.chance * x * y
				}
			}
		}
	})
	for i := range m {
		for j := range i {
			m[j][i] = m[i][j]
		}
	}
}

// simpleNode is a point of the logit of a pair whose exposure is independent of its relevance and
// not logged, which most are: P, the chance of a link given that the pair is sampled, 1−P, and the
// slopes of the log odds of P along z, with what s follows of it, s, likeness and t.
type simpleNode struct{ linked, unlinked, byZ, byS, byText, together float64 }

// oddsAt has, at every node of a pair, e^z and (1−π)/π where s follows z along a line. Exponentials are found at the
// logit itself and once for the two points at equal distance: they are most of what a pair costs.
type oddsAt struct{ link, hidden [mostNodes]float64 }

func (l *cpuAssumed) odds(p *pairAt, nodes *nodes, out *oddsAt) {
	centre, rise := l.assumed.Response.line(p.z)
	out.link[0] = math.Exp(max(-300, min(300, p.z)))
	out.hidden[0] = math.Exp(-max(-300, min(300, p.s+p.bend*centre)))
	for i := 1; i < len(nodes.at); i += 2 {
		factor := p.spread[i/2]
		out.link[i], out.link[i+1] = out.link[0]*factor, out.link[0]/factor
		out.hidden[i], out.hidden[i+1] = out.hidden[0], out.hidden[0]
		if p.bend != 0 {
			factor = math.Exp(max(-300, min(300, p.bend*rise*p.deviation*nodes.at[i])))
			out.hidden[i], out.hidden[i+1] = out.hidden[0]/factor, out.hidden[0]*factor
		}
	}
}

// simpleNodes sets the nodes of a pair, and returns their places and weights.
func (l *cpuAssumed) simpleNodes(p *pairAt, out *[mostNodes]simpleNode) *nodes {
	nodes := l.nodes(p)
	var odds oddsAt
	l.odds(p, nodes, &odds)
	if l.assumed.Response == Logistic && l.dependence < 0 {
		for i, at := range nodes.at {
			out[i].logistic(p, p.z+p.deviation*at, odds.link[i], odds.hidden[i])
		}
		return nodes
	}
	for i, at := range nodes.at {
		l.simple(&out[i], p, p.z+p.deviation*at, odds.link[i], odds.hidden[i])
	}
	return nodes
}

// logistic sets a node of a logistic response, given the odds e^z and x = (1−π)/π. With e = e^−z and Q = e + x + ex
// everything is a quotient of positive numbers: πy = 1/(1+Q), P = 1/(1+rQ).
func (n *simpleNode) logistic(p *pairAt, z, link, x float64) {
	const least, most = 1e-150, 1e150 // whose products are finite
	e := 1 / max(least, min(most, link))
	x = max(least, min(most, x))
	q := e + x + e*x
	odds := p.rate * q
	inverse, linked := 1/q, 1/(1+odds)
	byS := x * (1 + e) * inverse
	n.linked, n.unlinked = linked, odds*linked
	n.byZ, n.byS, n.byText = e*(1+x)*inverse+p.bend*byS, byS, z*byS
}

// simpleBelief is what is believed at a node: ŷ, 1−ŷ and d log ŷ/dz, π and 1−π, and likeness with the slope of s in z.
type simpleBelief struct{ y, restY, slope, pi, restPi, likeness, rise float64 }

// simpleBelief returns it, given the odds there.
func (l *cpuAssumed) simpleBelief(p *pairAt, z, link, hidden float64) (b simpleBelief) {
	b.y, b.restY, b.slope = l.assumed.Response.atOdds(z, link)
	b.pi, b.likeness = 1/(1+hidden), z
	b.restPi = hidden * b.pi
	if len(l.text) > 0 {
		b.likeness, b.rise = l.assumed.Response.likeness(z, b.y, b.restY, b.slope)
		if b.rise *= p.bend; l.assumed.Response == Cauchit { // whose likeness is no line
			b.pi, b.restPi = p.exposure(b.likeness)
		}
	}
	return b
}

// simple sets a node, given the odds there.
func (l *cpuAssumed) simple(n *simpleNode, p *pairAt, z, link, hidden float64) {
	b := l.simpleBelief(p, z, link, hidden)
	var c, q, byZ, byS, together float64
	if p.copula == nil {
		c, q = max(b.pi*b.y, 1e-300), b.restPi+b.pi*b.restY
		byZ, byS = b.slope/q, b.restPi/q
	} else {
		var byPi, byY float64
		c, byPi, byY, together = p.copula.Slopes(b.pi, b.y)
		c = max(c, 1e-300)
		if q = 1 - c; q < .1 { // where the difference would lose digits
			q = b.restPi + p.complement.Both(b.pi, b.restY)
		}
		byZ, byS, together = byY*b.slope/q, byPi*b.restPi/q, together/q
	}
	inverse := 1 / (c + p.rate*q)
	n.linked, n.unlinked = c*inverse, p.rate*q*inverse
	n.byZ, n.byS, n.byText, n.together = byZ+b.rise*byS, byS, b.likeness*byS, together
}

// exposure returns π and 1−π.
func (p *pairAt) exposure(likeness float64) (pi, rest float64) {
	return kern.Sigmoid64(max(-300, min(300, p.s+p.bend*likeness)))
}

func (l *cpuAssumed) simpleSlopes(p *pairAt, losses *tally, g *[directions]float64) {
	var gz, gs, text, together float64
	var at [mostNodes]simpleNode
	nodes := l.simpleNodes(p, &at)
	for i, weight := range nodes.of {
		n := &at[i]
		miss, chance := weight*n.linked, n.unlinked
		if p.seen.Linked {
			miss, chance = -weight*n.unlinked, n.linked
		}
		losses.add(nodes.tally[i], 1/max(chance, 1e-300))
		gz += miss * n.byZ
		gs += miss * n.byS
		text += miss * n.byText
		together += miss * n.together
	}
	g[alongProducts], g[alongCell], g[alongText], g[alongTogether] = gz, gs, text, together
}

func (l *cpuAssumed) simpleInformation(p *pairAt, m *[directions][directions]float64) {
	var at [mostNodes]simpleNode
	for i, weight := range l.simpleNodes(p, &at).of {
		n := &at[i]
		v := weight * n.linked * n.unlinked
		a, b, c, d := n.byZ, n.byS, n.byText, n.together
		m[0][0] += v * a * a
		m[0][1] += v * a * b
		m[0][2] += v * a * c
		m[1][1] += v * b * b
		m[1][2] += v * b * c
		m[2][2] += v * c * c
		if l.dependence >= 0 {
			m[0][3] += v * a * d
			m[1][3] += v * b * d
			m[2][3] += v * c * d
			m[3][3] += v * d * d
		}
	}
	m[1][0], m[2][0], m[2][1] = m[0][1], m[0][2], m[1][2]
	m[3][0], m[3][1], m[3][2] = m[0][3], m[1][3], m[2][3]
}

// slopeSum adds up gradients: of many pairs at a time in float32 along the products, of each pair along the others.
type slopeSum struct {
	loss  float64
	w     []float32
	s     []float64 // of the cells
	terms []float64
}

func (l *cpuAssumed) newSlopeSum() slopeSum {
	return slopeSum{w: make([]float32, l.d+1), s: make([]float64, l.cells),
		terms: make([]float64, len(l.assumed.Terms))}
}

// add adds the slopes of pair k along all but the products.
func (s *slopeSum) add(l *cpuAssumed, k int, g *[directions]float64) {
	s.s[l.cell[k]] += g[alongCell]
	for i := range l.assumed.Terms {
		t := &l.assumed.Terms[i]
		s.terms[i] += g[t.Kind.direction()] * t.value(k)
	}
}

// into adds it to a gradient.
func (s *slopeSum) into(grad []float64) {
	for i, x := range s.w {
		grad[i] += float64(x)
	}
	rest := grad[len(s.w):]
	for c, x := range s.s {
		rest[c] += x
	}
	for i, x := range s.terms {
		rest[len(s.s)+i] += x
	}
}

// passes goes over a lot in stretches: f gets the places and the products of the rows and (w, b).
func (l *cpuAssumed) passes(w []float32, from, to int, f func(from int, z []float32) error) error {
	var z [passed]float32
	for ; from < to; from += passed {
		n := min(passed, to-from)
		kern.DotRange(z[:n], w, l.x, from)
		if err := f(from, z[:n]); err != nil {
			return err
		}
	}
	return nil
}

// Value implements LogLikelihood.
func (l *cpuAssumed) Value(ctx context.Context, theta, grad []float64) (float64, error) {
	if len(theta) != l.size() || len(grad) != l.size() {
		return 0, l.misfit(theta)
	}
	w := l.weights(theta)
	var parts [lots]slopeSum
	err := l.eachLot(ctx, func(lot, from, to int) error {
		parts[lot] = l.newSlopeSum()
		part := &parts[lot]
		losses := newTally(l.deviation != nil)
		var dz [passed]float32
		var idx [passed]int32
		p := l.pairAt(theta)
		var g [directions]float64
		err := l.passes(w, from, to, func(from int, z []float32) error {
			for k := range z {
				l.place(p, from+k, z[k], theta)
				part.loss += l.slopes(p, &losses, &g)
				part.add(l, from+k, &g)
				dz[k], idx[k] = float32(g[alongProducts]), int32(from+k)
			}
			kern.AddRows(part.w, l.x, idx[:len(z)], dz[:len(z)])
			return nil
		})
		part.loss += losses.total()
		return err
	})
	if err != nil {
		return 0, err
	}
	clear(grad)
	var loss float64
	for i := range parts {
		loss += parts[i].loss
		parts[i].into(grad)
	}
	return loss, nil
}

// assumedPart is what one lot adds to Fisher's information.
type assumedPart struct {
	informationPart
	terms *kern.Matrix // a row per term: with the products
	one   []float64    // with the intercept
	cells []float64    // a row per term: with the cells
	among []float64    // with one another
}

func (p *assumedPart) close() {
	for _, m := range []*kern.Matrix{p.a, p.b, p.terms} {
		if m != nil {
			m.Close()
		}
	}
}

// Information implements LogLikelihood.
func (l *cpuAssumed) Information(ctx context.Context, theta []float64) ([]float64, error) {
	if len(theta) != l.size() {
		return nil, l.misfit(theta)
	}
	w := l.weights(theta)
	parts := make([]assumedPart, lots)
	defer func() {
		for i := range parts {
			parts[i].close()
		}
	}()
	err := l.eachLot(ctx, func(lot, from, to int) error {
		return l.addInformation(&parts[lot], theta, w, from, to)
	})
	if err != nil {
		return nil, err
	}
	n, first, terms := l.size(), l.cpuDesign.size(), len(l.assumed.Terms)
	full := make([]float64, n*n)
	for _, p := range parts {
		p.into(full, n, l.d)
		for t := range terms {
			out := full[(first+t)*n:]
			for j, x := range p.terms.Row(t)[:l.d] {
				out[j] += float64(x)
			}
			out[l.d] += p.one[t]
			for c, x := range p.cells[t*l.cells : (t+1)*l.cells] {
				out[l.d+1+c] += x
			}
			for u, x := range p.among[t*terms : t*terms+t+1] {
				out[first+u] += x
			}
		}
	}
	return full, nil
}

func (l *cpuAssumed) addInformation(p *assumedPart, theta []float64, w []float32, from, to int) error {
	terms := len(l.assumed.Terms)
	var err error
	if p.informationPart, err = newInformationPart(l.d+1, l.cells); err != nil {
		return err
	}
	if p.terms, err = kern.NewMatrix(max(terms, 1), l.d+1); err != nil {
		return err
	}
	p.one, p.cells, p.among = make([]float64, terms), make([]float64, terms*l.cells), make([]float64, terms*terms)
	weighted, err := newWeightedSquares(l.x)
	if err != nil {
		return err
	}
	defer weighted.close()
	var zz [passed]float32
	row := make([]float64, terms)
	at := l.pairAt(theta)
	var m [directions][directions]float64
	return l.passes(w, from, to, func(from int, z []float32) error {
		for k := range z {
			l.place(at, from+k, z[k], theta)
			l.information(at, &m)
			zz[k] = float32(m[alongProducts][alongProducts])
			p.add(l.cpuDesign, from+k, contribution{zz: m[alongProducts][alongProducts],
				zs: m[alongProducts][alongCell], ss: m[alongCell][alongCell]})
			l.addTerms(p, from+k, &m, row)
		}
		return weighted.add(p.a, from, zz[:len(z)])
	})
}

// addTerms adds what pair k says of the terms.
func (l *cpuAssumed) addTerms(p *assumedPart, k int, m *[directions][directions]float64, factor []float64) {
	for t := range factor {
		term := &l.assumed.Terms[t]
		factor[t] = term.value(k)
		along := m[term.Kind.direction()]
		x := factor[t] * along[alongProducts]
		p.one[t] += x
		kern.AddRows(p.terms.Row(t), l.x, []int32{int32(k)}, []float32{float32(x)})
		p.cells[t*l.cells+int(l.cell[k])] += factor[t] * along[alongCell]
		for u := range t + 1 {
			p.among[t*len(factor)+u] += factor[t] * factor[u] * along[l.assumed.Terms[u].Kind.direction()]
		}
	}
}

// Means implements AssumedLikelihood.
func (l *cpuAssumed) Means(ctx context.Context, theta []float64, of []PairMean) ([]float64, [][]float64, error) {
	if len(theta) != l.size() {
		return nil, nil, l.misfit(theta)
	}
	n := l.x.Rows()
	for _, m := range of {
		for _, column := range [][]float32{m.Link, m.Exposure, m.Missed} {
			if column != nil && len(column) != n {
				return nil, nil, fmt.Errorf("%w: a mean of %d numbers over %d pairs", ErrShape, len(column), n)
			}
		}
	}
	w := l.weights(theta)
	var parts [lots][]slopeSum
	err := l.eachLot(ctx, func(lot, from, to int) error {
		parts[lot] = make([]slopeSum, len(of))
		for i := range of {
			parts[lot][i] = l.newSlopeSum()
		}
		dz := make([][passed]float32, len(of))
		var idx [passed]int32
		p := l.pairAt(theta)
		return l.passes(w, from, to, func(from int, z []float32) error {
			for k := range z {
				l.place(p, from+k, z[k], theta)
				idx[k] = int32(from + k)
				l.addMeans(parts[lot], dz, p, from, k, of)
			}
			for i := range of {
				kern.AddRows(parts[lot][i].w, l.x, idx[:len(z)], dz[i][:len(z)])
			}
			return nil
		})
	})
	if err != nil {
		return nil, nil, err
	}
	values, gradients := make([]float64, len(of)), make([][]float64, len(of))
	for i := range of {
		gradients[i] = make([]float64, l.size())
		for _, part := range parts {
			values[i] += part[i].loss
			part[i].into(gradients[i])
		}
	}
	return values, gradients, nil
}

// pairMeans sets ŷ, π̂ and P(relevant | not linked) of a pair and their slopes.
func (l *cpuAssumed) pairMeans(p *pairAt, means *[3]float64, slopes *[3][directions]float64) {
	if l.dependence < 0 {
		l.simpleMeans(p, means, slopes)
		return
	}
	l.each(p, func(weight float64, b *pairBelief) {
		missed := l.both(p, b.hidden, b.wanted, -1)
		missed.chance /= b.unlinked
		for i, x := range b.linked.slopes {
			missed.slopes[i] += b.linked.chance / b.unlinked * x
		}
		for i, e := range [3]*event{&b.wanted, &b.shown, &missed} {
			means[i] += weight * e.chance
			for j, g := range b.along(e.slopes) {
				slopes[i][j] += weight * e.chance * g
			}
		}
	})
}

// simpleMeans is pairMeans of a pair whose exposure is independent of its relevance: of t = (1−π)y/(1−πy) the
// slopes are t·d log y/(1−πy) in z and −t·π(1−y)/(1−πy) in s.
func (l *cpuAssumed) simpleMeans(p *pairAt, means *[3]float64, slopes *[3][directions]float64) {
	nodes := l.nodes(p)
	var odds oddsAt
	l.odds(p, nodes, &odds)
	for i, weight := range nodes.of {
		b := l.simpleBelief(p, p.z+p.deviation*nodes.at[i], odds.link[i], odds.hidden[i])
		inverse := 1 / (b.restPi + b.pi*b.restY)
		missed := weight * b.restPi * b.y * inverse
		means[0] += weight * b.y
		means[1] += weight * b.pi
		means[2] += missed
		slopes[0][alongProducts] += weight * b.y * b.slope
		slopes[2][alongProducts] += missed * b.slope * inverse
		for of, byS := range [3]float64{1: weight * b.pi * b.restPi, 2: -missed * b.pi * b.restY * inverse} {
			slopes[of][alongProducts] += b.rise * byS
			slopes[of][alongCell] += byS
			slopes[of][alongText] += b.likeness * byS
		}
	}
}

// addMeans adds pair from+k to every mean.
func (l *cpuAssumed) addMeans(sums []slopeSum, dz [][passed]float32, p *pairAt, from, k int, of []PairMean) {
	var means [3]float64
	var slopes [3][directions]float64
	l.pairMeans(p, &means, &slopes)
	for i := range of {
		var g [directions]float64
		for j, column := range [3][]float32{of[i].Link, of[i].Exposure, of[i].Missed} {
			if column == nil {
				continue
			}
			f := float64(column[from+k])
			sums[i].loss += f * means[j]
			for a := range g {
				g[a] += f * slopes[j][a]
			}
		}
		dz[i][k] = float32(g[alongProducts])
		sums[i].add(l, from+k, &g)
	}
}

// GroupGradients implements AssumedLikelihood.
func (l *cpuAssumed) GroupGradients(ctx context.Context, theta []float64, g PairGroups) ([][]float64, error) {
	if len(theta) != l.size() || len(g.Of) != l.x.Rows() {
		return nil, l.misfit(theta)
	}
	w := l.weights(theta)
	var parts [lots][]slopeSum
	err := l.eachLot(ctx, func(lot, from, to int) error {
		parts[lot] = make([]slopeSum, g.Count)
		for i := range parts[lot] {
			parts[lot][i] = l.newSlopeSum()
		}
		unused := newTally(false)
		p := l.pairAt(theta)
		var slopes [directions]float64
		return l.passes(w, from, to, func(from int, z []float32) error {
			for k := range z {
				l.place(p, from+k, z[k], theta)
				l.slopes(p, &unused, &slopes)
				part := &parts[lot][g.Of[from+k]]
				part.add(l, from+k, &slopes)
				kern.AddRows(part.w, l.x, []int32{int32(from + k)}, []float32{float32(slopes[alongProducts])})
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	out := make([][]float64, g.Count)
	for i := range out {
		out[i] = make([]float64, l.size())
		for _, part := range parts {
			part[i].into(out[i])
		}
	}
	return out, nil
}

// GroupValues implements AssumedLikelihood.
func (l *cpuAssumed) GroupValues(ctx context.Context, theta [][]float64, g PairGroups) ([]float64, error) {
	if len(theta) != g.Count || len(g.Of) != l.x.Rows() {
		return nil, fmt.Errorf("%w: parameters of %d groups for %d, of %d pairs", ErrShape, len(theta), g.Count,
			len(g.Of))
	}
	weights := make([][]float32, len(theta))
	for i, t := range theta {
		if len(t) != l.size() {
			return nil, l.misfit(t)
		}
		weights[i] = l.weights(t)
	}
	var parts [lots][]float64
	err := l.eachLot(ctx, func(lot, from, to int) error {
		parts[lot] = make([]float64, g.Count)
		losses, pairs := make([]tally, g.Count), make([]*pairAt, g.Count)
		for i := range losses {
			losses[i], pairs[i] = newTally(false), l.pairAt(theta[i])
		}
		var z [1]float32
		for k := from; k < to; k++ {
			group := g.Of[k]
			kern.DotRange(z[:], weights[group], l.x, k)
			l.place(pairs[group], k, z[0], theta[group])
			losses[group].add(0, 1/max(l.chance(pairs[group]), 1e-300))
		}
		for i := range losses {
			parts[lot][i] += losses[i].total()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]float64, g.Count)
	for _, part := range parts {
		for i, x := range part {
			out[i] += x
		}
	}
	return out, nil
}

// chance returns that of what was seen of a pair, over what is believed of its logit.
func (l *cpuAssumed) chance(p *pairAt) (sum float64) {
	if p.seen.Exposure == risk.Unlogged {
		var at [mostNodes]simpleNode
		for i, weight := range l.simpleNodes(p, &at).of {
			if p.seen.Linked {
				sum += weight * at[i].linked
			} else {
				sum += weight * at[i].unlinked
			}
		}
		return sum
	}
	var room [3]event
	l.each(p, func(weight float64, b *pairBelief) { sum += weight * l.possible(b, &room)[p.observed()].chance })
	return sum
}

// Calibrate implements LogLikelihood, for a logistic response: a logistic regression on soft targets.
func (l *cpuAssumed) Calibrate(ctx context.Context, theta []float64) (scale, shift float64, err error) {
	if len(theta) != l.size() {
		return 0, 0, l.misfit(theta)
	}
	if l.deviation == nil || l.assumed.Response != Logistic {
		return 1, 0, nil
	}
	w := l.weights(theta)
	logits, target := make([]float64, l.x.Rows()), make([]float64, l.x.Rows())
	err = l.eachLot(ctx, func(_, from, to int) error {
		p := l.pairAt(theta)
		return l.passes(w, from, to, func(from int, z []float32) error {
			for k := range z {
				l.place(p, from+k, z[k], theta)
				logits[from+k] = p.z
				nodes, e := l.nodes(p), math.Exp(-max(-300, min(300, p.z)))
				target[from+k] = nodes.of[0] / (1 + e)
				for i := 1; i < len(nodes.of); i += 2 {
					factor := p.spread[i/2]
					target[from+k] += nodes.of[i] * (1/(1+e*factor) + 1/(1+e/factor))
				}
			}
			return nil
		})
	})
	if err != nil {
		return 0, 0, err
	}
	scale, shift = calibrated(logits, target)
	return scale, shift, nil
}

// Curvature implements LogLikelihood.
func (l *cpuAssumed) Curvature(context.Context, []float64) (Curvature, error) {
	return nil, fmt.Errorf("%w: other assumptions need the whole information matrix; use fewer dimensions", ErrShape)
}
