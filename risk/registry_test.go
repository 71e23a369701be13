package risk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestRegistry(t *testing.T) {
	for name, want := range builtins {
		got, err := Lookup(name)
		if err != nil || got != Scheme(want) {
			t.Errorf("Lookup(%q) = %v, %v", name, got, err)
		}
	}
	for _, c := range []struct {
		name   string
		scheme Scheme
		want   error
	}{
		{"ap", AP{}, ErrDuplicate},
		{"", AP{}, ErrName},
		{"two words", AP{}, ErrName},
		{"tab\t", AP{}, ErrName},
		{"nothing", nil, ErrMass},
		{"no-func", MassFunc(nil), ErrMass},
	} {
		if err := Register(c.name, c.scheme); !errors.Is(err, c.want) {
			t.Errorf("Register(%q) = %v, want %v", c.name, err, c.want)
		}
	}
	if s, _ := Lookup("ap"); s != Scheme(AP{}) {
		t.Error("a rejected duplicate replaced the scheme")
	}
	if s, err := Lookup("rw"); err != nil || s != Scheme(W{}) || slices.Contains(Names(), "rw") {
		t.Errorf("rw is %v (%v), names %v", s, err, Names())
	}
	if err := Register("rw", AP{}); !errors.Is(err, ErrDuplicate) {
		t.Errorf("the other name of w is taken: %v", err)
	}
	if s, err := Lookup("dr"); err != nil || s != Scheme(DR{}) {
		t.Errorf("dr is %v (%v)", s, err)
	}
	_, err := Lookup("nope")
	if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "naive") {
		t.Errorf("Lookup error %v must list the names there are", err)
	}
	if !slices.IsSorted(Names()) {
		t.Errorf("names %v", Names())
	}
}

// Of many goroutines that register one name exactly one wins. Meaningful under -race.
func TestRegistryConcurrent(t *testing.T) {
	var workers sync.WaitGroup
	var mu sync.Mutex
	won := map[string]int{}
	for w := range 8 {
		workers.Go(func() {
			for k := range 20 {
				name := fmt.Sprintf("concurrent-%d", k)
				if err := Register(name, W{}); err == nil {
					mu.Lock()
					won[name]++
					mu.Unlock()
				} else if !errors.Is(err, ErrDuplicate) {
					t.Errorf("worker %d: %v", w, err)
				}
				if _, err := Lookup(name); err != nil {
					t.Error(err)
				}
				Names()
			}
		})
	}
	workers.Wait()
	for k := range 20 {
		if name := fmt.Sprintf("concurrent-%d", k); won[name] != 1 {
			t.Errorf("%s registered %d times", name, won[name])
		}
	}
}
