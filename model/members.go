package model

import (
	"fmt"
	"slices"
	"strconv"
)

// MemberModel is a link model under another assumption about exposure or relevance that explains the links as well, in
// units of the published z: over the training pairs its logits have the same mean and spread. So the logits of all
// members, whatever their response, can be compared and averaged.
type MemberModel struct {
	Name       string    `json:"name"`             // the assumption, in words
	LinkParams []float32 `json:"-"`                // of the model's Link
	Weight     float64   `json:"weight,omitempty"` // in the mean that lists are ordered by; all 0 means all alike
	// Popularity is the slope of log(1 + in-degree of the target), where that is relevant more often.
	Popularity float64 `json:"popularity,omitempty"`
}

// Ranker is what targets are ordered by: the link model at some parameters, and a slope of the targets' popularity,
//
//	z = z_Link(Params) + Slope·Popularity[target].
type Ranker struct {
	Link       LinkModel
	Params     []float32
	Slope      float32
	Popularity []float32 // of every node; nil where the slope is 0
}

// Published returns what orders targets by the published ŷ.
func (m Model) Published() Ranker { return Ranker{Link: m.Link, Params: m.LinkParams} }

// Ranker returns what lists are ordered by, which is the rule of the whole software: the weighted mean of the members'
// logits, each in units of the published z. They are linear in the parameters, so the mean of the members is one model
// at the mean of their parameters, and a list under many assumptions costs no more than under one. Without members, or
// with one alone, it is the published model. The order of members changes no bit.
func (m Model) Ranker() Ranker {
	out := m.Published()
	if len(m.Members) < 2 {
		return out
	}
	alike := !slices.ContainsFunc(m.Members, func(member MemberModel) bool { return member.Weight > 0 })
	column := make([]float64, len(m.Members))
	sum := func(of func(MemberModel) float64) (sum float64) {
		for k, member := range m.Members {
			if column[k] = of(member); !alike {
				column[k] *= member.Weight
			}
		}
		slices.Sort(column) // so that the sum does not depend on their order
		for _, x := range column {
			sum += x
		}
		return sum
	}
	all := sum(func(MemberModel) float64 { return 1 })
	out.Params = make([]float32, len(m.LinkParams))
	for i := range out.Params {
		out.Params[i] = float32(sum(func(member MemberModel) float64 { return float64(member.LinkParams[i]) }) / all)
	}
	out.Slope = float32(sum(func(member MemberModel) float64 { return member.Popularity }) / all)
	return out.with(m.Popularity)
}

// Rankers returns what each member alone would order targets by; nil where Ranker is the published model.
func (m Model) Rankers() (out []Ranker) {
	if len(m.Members) < 2 {
		return nil
	}
	for _, member := range m.Members {
		out = append(out, Ranker{Link: m.Link, Params: member.LinkParams, Slope: float32(member.Popularity)}.
			with(m.Popularity))
	}
	return out
}

func (r Ranker) with(popularity []float32) Ranker {
	if r.Slope != 0 {
		r.Popularity = popularity
	}
	return r
}

// Logits sets z[k] to what pair k is ordered by.
func (r Ranker) Logits(z []float32, b Batch) {
	r.Link.Logits(z, r.Params, b)
	if r.Slope != 0 {
		for k, target := range b.Targets {
			z[k] += r.Slope * r.Popularity[target]
		}
	}
}

// memberPrefix begins the names of a member's tensors.
func memberPrefix(k int) string { return "member" + strconv.Itoa(k+1) + "." }

// isMember reports whether a tensor's name is of a member.
func isMember(name string) bool {
	var k int
	n, _ := fmt.Sscanf(name, "member%d.", &k)
	return n == 1
}

// addMembers appends the members' parameters.
func (f *File) addMembers(link savedLink, members []MemberModel) error {
	for k, member := range members {
		if err := f.add(memberPrefix(k), link, member.LinkParams); err != nil {
			return err
		}
	}
	return nil
}

// members reads what addMembers and the metadata have. A file of an earlier version has none.
func (f *File) members(n Nodes, link LinkModel) (members []MemberModel, err error) {
	if _, known := f.Metadata[KeyMembers]; !known {
		return nil, nil
	}
	if err := f.document(KeyMembers, &members); err != nil {
		return nil, err
	}
	for k := range members {
		if members[k].LinkParams, err = f.params(memberPrefix(k), link.(savedModel)); err != nil {
			return nil, err
		}
		if members[k].Popularity != 0 && n.Popularity != nil {
			if err := checkTerm(n, Popularity); err != nil {
				return nil, fmt.Errorf("%s: the assumption %q: %w", f.name(), members[k].Name, err)
			}
		}
	}
	return members, nil
}
