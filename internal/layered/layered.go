// Package layered holds maps of which many goroutines read one version while the next one is made.
//
//	next := current.Next()
//	next.Set("id", value)
//	published.Store(&next) // readers of current see nothing of it
package layered

import (
	"iter"
	"maps"
)

// mostRecent is how many entries are copied with every version; the others are shared.
const mostRecent = 512

// Map is a version of a map from strings. The zero value is empty.
type Map[V any] struct {
	old    map[string]V
	recent map[string]entry[V] // since old was made
}

type entry[V any] struct {
	value   V
	deleted bool
}

// Next returns a version to be changed with Set and Delete.
func (m Map[V]) Next() Map[V] {
	if len(m.recent) <= mostRecent {
		next := Map[V]{m.old, make(map[string]entry[V], len(m.recent)+1)}
		maps.Copy(next.recent, m.recent)
		return next
	}
	all := make(map[string]V, len(m.old)+len(m.recent))
	for key, value := range m.All() {
		all[key] = value
	}
	return Map[V]{all, map[string]entry[V]{}}
}

// Set changes a version that nobody else reads yet.
func (m Map[V]) Set(key string, value V) { m.recent[key] = entry[V]{value: value} }

// Delete removes a key from a version that nobody else reads yet.
func (m Map[V]) Delete(key string) { m.recent[key] = entry[V]{deleted: true} }

// Get returns the value of a key.
func (m Map[V]) Get(key string) (V, bool) {
	if e, ok := m.recent[key]; ok {
		return e.value, !e.deleted
	}
	v, ok := m.old[key]
	return v, ok
}

// All returns every entry, in no order.
func (m Map[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for key, e := range m.recent {
			if !e.deleted && !yield(key, e.value) {
				return
			}
		}
		for key, v := range m.old {
			if _, newer := m.recent[key]; !newer && !yield(key, v) {
				return
			}
		}
	}
}
