package graph

import "errors"

// Errors of this package wrap one of these, for errors.Is.
var (
	// ErrUnknownNode: a link, a universe or a subgraph names a node that is not in the graph.
	ErrUnknownNode = errors.New("unknown node")
	// ErrDuplicateNode: an id was added twice, or a list of nodes holds one twice.
	ErrDuplicateNode = errors.New("duplicate node")
	// ErrEmptyID: a node has no id.
	ErrEmptyID = errors.New("empty id")
	// ErrSelfLink: a link goes from a node to itself.
	ErrSelfLink = errors.New("link to itself")
	// ErrRole: a link from a node that is a target only or to one that is a source only, or no such role.
	ErrRole = errors.New("invalid role")
	// ErrTooLarge: more nodes, fields or text than the compact tables can number.
	ErrTooLarge = errors.New("too large")
	// ErrBuilt: the Builder has already built its graph.
	ErrBuilt = errors.New("already built")

	// ErrShape: vectors, pairs or an order do not fit the graph, or one another.
	ErrShape = errors.New("shapes differ")
	// ErrNotFinite: a vector holds a NaN or an infinity.
	ErrNotFinite = errors.New("not a finite number")

	// ErrReadOnly: the vectors are a mapped file's.
	ErrReadOnly = errors.New("read-only")

	// ErrShares: the shares of a split are negative, not finite, or do not add up to one.
	ErrShares = errors.New("invalid shares")
	// ErrDates: the cut dates of a split are in the wrong order, or no node has a time.
	ErrDates = errors.New("invalid dates")
	// ErrEmptySubset: a split leaves nothing to train or to test on.
	ErrEmptySubset = errors.New("too few to split")

	// ErrEmptyUniverse: no ordered pair meets the universe's conditions.
	ErrEmptyUniverse = errors.New("no pairs")
	// ErrNoLinks: the universe holds no link, so negatives per link mean nothing; or there is none to find
	// communities by.
	ErrNoLinks = errors.New("no links")
	// ErrTooManyPairs: the pairs asked for do not fit the limit.
	ErrTooManyPairs = errors.New("too many pairs")
	// ErrSettings: the settings of a sample, a walk, a shuffle or a search for fields are incomplete or
	// impossible.
	ErrSettings = errors.New("invalid settings")
	// ErrPair: a pair contradicts the graph or carries an impossible weight or rate.
	ErrPair = errors.New("invalid pair")
)
