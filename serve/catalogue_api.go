package serve

import (
	"context"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"unseen/graph"
	"unseen/hint"
	"unseen/recommend"
)

// nodeBatch is the nodes of one request.
type nodeBatch struct {
	Nodes []NodeInput `json:"nodes" minItems:"1" maxItems:"1000" nullable:"false"`
}

type nodeBody struct {
	ID   string `path:"id" maxLength:"1024" doc:"id, with / escaped as %2F"`
	Body NodeInput
}

type removeInput struct {
	IDs []string `query:"id,explode" minItems:"1" maxItems:"1000" required:"true" doc:"id to remove; repeatable"`
}

func (s *Service) putNodes(ctx context.Context, in *body[nodeBatch]) (*body[CatalogueResult], error) {
	out, err := s.PutNodes(ctx, in.Body.Nodes)
	return respond(out), err
}

func (s *Service) patchNodes(ctx context.Context, in *body[nodeBatch]) (*body[CatalogueResult], error) {
	out, err := s.PatchNodes(ctx, in.Body.Nodes)
	return respond(out), err
}

func (s *Service) deleteNodes(ctx context.Context, in *removeInput) (*body[CatalogueResult], error) {
	out, err := s.RemoveNodes(ctx, in.IDs)
	return respond(out), err
}

func (s *Service) putNode(ctx context.Context, in *nodeBody) (*body[CatalogueResult], error) {
	if err := in.name(); err != nil {
		return nil, err
	}
	out, err := s.PutNodes(ctx, []NodeInput{in.Body})
	return respond(out), err
}

func (s *Service) patchNode(ctx context.Context, in *nodeBody) (*body[CatalogueResult], error) {
	if err := in.name(); err != nil {
		return nil, err
	}
	out, err := s.PatchNodes(ctx, []NodeInput{in.Body})
	return respond(out), err
}

// name gives the node the id of the path.
func (n *nodeBody) name() error {
	if n.Body.ID != "" && n.Body.ID != n.ID {
		return hint.Wrap(requestError("id", clip(n.Body.ID), "is not the id of the path"), "leave it out of the body")
	}
	n.Body.ID = n.ID
	return nil
}

// changesCatalogue reports whether calls of an operation are written to the audit log although they need no admin.
func changesCatalogue(op *huma.Operation) bool {
	return op.Method != "GET" && strings.HasPrefix(op.Path, "/api/v1/nodes")
}

// id returns the id of a place.
func (v modelView) id(place int32) string {
	if c, changed := v.over.Change(place); changed {
		return c.ID
	}
	return v.Graph().ID(place)
}

// summary says what is at a place.
func (v modelView) summary(place int32) NodeSummary {
	c, changed := v.over.Change(place)
	if !changed {
		return summarize(v.Graph(), place)
	}
	g := v.Graph()
	n := NodeSummary{ID: c.ID, Title: c.Title, Field: g.FieldName(v.FieldAt(v.over, place)), Out: len(c.Links)}
	if i, ok := g.Index(c.ID); ok {
		if n.In = len(g.In(i)); c.Links == nil {
			n.Out = len(g.Out(i))
		}
	}
	if !c.Time.IsZero() {
		n.Time = c.Time.Format(time.DateOnly)
	}
	if c.Role != graph.SourceAndTarget {
		n.Role = c.Role.String()
	}
	return n
}

// recommended reports whether lists can have the node at a place, and why not.
func (v modelView) recommended(place int32) (is bool, reason string) {
	c, changed := v.over.Change(place)
	switch {
	case v.IsCandidate(v.over, place):
		return true, ""
	case changed && c.Role == graph.SourceOnly, !changed && v.Graph().Role(place) == graph.SourceOnly:
		return false, "it is a source: it gets lists and is in none"
	case v.Graph().Vectors() != nil && changed && c.Vector == nil:
		return false, "it has no vector: its text has no word that the encoder knows"
	}
	return false, "the live model has not learned about it; retraining may change that"
}

// changedDetail is a node that came or changed, with its links.
func (v modelView) changedDetail(place int32, c *recommend.NodeChange) NodeDetail {
	d := NodeDetail{NodeSummary: v.summary(place), Text: c.Text, Origin: NodeAdded, LinksTo: []LinkSummary{}}
	d.Recommended, d.Reason = v.recommended(place)
	i, inGraph := v.Graph().Index(c.ID)
	if inGraph {
		d.Origin = NodeChanged
	}
	if c.Links == nil && inGraph {
		d.LinksTo = v.history(i)
	}
	for _, id := range c.Links {
		j, ok := v.find(id)
		if !ok || len(d.LinksTo) == 100 {
			continue
		}
		link := LinkSummary{NodeSummary: v.summary(j)}
		if old, known := v.Graph().Index(id); known && inGraph {
			if at, dated := linkTime(v.Graph(), i, old); dated {
				link.LinkedAt = time.Unix(at, 0).UTC().Format(time.DateOnly)
			}
		}
		d.LinksTo = append(d.LinksTo, link)
	}
	if c.Role == graph.TargetOnly && inGraph {
		for _, from := range v.Graph().In(i) {
			if at, ok := v.find(v.Graph().ID(from)); ok && len(d.LinkedFrom) < 100 {
				d.LinkedFrom = append(d.LinkedFrom, v.summary(at))
			}
		}
	}
	return d
}
