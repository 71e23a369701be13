package recommend

import (
	"context"

	"unseen/engine"
	"unseen/index"
)

// fewestClusters is how many clusters of the index a batch looks at in each at least.
const fewestClusters = 8

// MeasureMany finds at how many clusters of the index Batch has to look for the k best of a source, and has it look at
// no more from then on if that finds enough: by the rule of lists, and by the naive model. Without an index it does
// nothing. It must not run beside queries.
func (r *Recommender) MeasureMany(ctx context.Context, k int) (Recall, error) {
	if r.many = (Recall{}); r.web == nil || k > mostWalked {
		return r.many, nil
	}
	sources := r.measuredSources()
	orders := []measuredOrder{{by: r.ranker}}
	if r.naive != nil && r.baseline.rows == r.ranker.rows {
		orders = append(orders, measuredOrder{by: r.baseline})
	}
	for o := range orders {
		if err := r.measured(ctx, &orders[o], sources, k); err != nil {
			return Recall{}, err
		}
	}
	for _, count := range ClusterCounts(r.web.Clusters()) {
		if r.many.Used {
			break
		}
		r.many = Recall{Queries: len(sources), K: k, Clusters: count, Used: true}
		for p, o := range orders {
			found, err := r.web.Many(ctx, o.search, count, r.threads)
			if err != nil {
				return Recall{}, err
			}
			share := shareFound(found, o.exact, k)
			if p == 0 {
				r.many.Share = share
			}
			r.many.Used = r.many.Used && share >= r.leastRecall
		}
	}
	return r.many, nil
}

// A scan of all nodes takes no longer than looking at one in so many of the clusters, nor than all else that the index
// takes where there are so many nodes.
const (
	mostOfClusters = 6
	scannedByMany  = 50_000
)

// ManyRecall is what MeasureMany found.
func (r *Recommender) ManyRecall() Recall { return r.many }

// ManyByIndex reports whether Batch makes lists of so many items by the index.
func (r *Recommender) ManyByIndex(k int) bool {
	return r.many.Used && k <= r.many.K && r.g.Len() >= r.scannedByMany
}

// batchTop finds the best by the index, and by the engine those of whom that finds too few, or all.
func (r *Recommender) batchTop(ctx context.Context, s engine.TargetSearch, by ranking, q Query) ([][]engine.Hit,
	error) {
	if q.Exact || !r.ManyByIndex(q.K) || by.rows != r.ranker.rows {
		return r.engine.TopK(ctx, s)
	}
	return webSearch{r.web, r.many.Clusters, len(r.g.Targets()), r.threads, r.engine}.top(ctx, s)
}

// ClusterCounts are at how many of so many clusters lists are tried to be found by, ascending; nil where a scan of all
// takes no longer.
func ClusterCounts(clusters int) (counts []int) {
	for count := fewestClusters; count <= clusters/mostOfClusters; count += count / 4 {
		counts = append(counts, count)
	}
	return counts
}

// webSearch finds the best by some clusters of an index, and by the engine those of whom that finds too few.
type webSearch struct {
	web      *index.Web
	clusters int
	targets  int // that may be hits
	threads  int
	engine   engine.Engine
}

func (w webSearch) top(ctx context.Context, s engine.TargetSearch) ([][]engine.Hit, error) {
	lists, err := w.web.Many(ctx, s, w.clusters, w.threads)
	if err != nil {
		return nil, err
	}
	var short []int
	left := s
	left.Queries = nil
	for k, hits := range lists {
		if len(hits) < min(s.K, w.targets-len(s.Queries[k].Skip)) {
			short = append(short, k)
			left.Queries = append(left.Queries, s.Queries[k])
		}
	}
	if len(short) > 0 {
		found, err := w.engine.TopK(ctx, left)
		if err != nil {
			return nil, err
		}
		for at, k := range short {
			lists[k] = found[at]
		}
	}
	return lists, nil
}
