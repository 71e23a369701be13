package risk

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
)

var registry = struct {
	sync.RWMutex
	schemes map[string]Scheme
}{schemes: map[string]Scheme{
	"true":  True{},
	"naive": Naive{},
	"w":     W{},
	"pu":    PU{},
	"ap":    AP{},
	"dr":    DR{},
}}

// aliases are other names of schemes: fit calls the method that learns by R_w rw.
var aliases = map[string]string{"rw": "w"}

// Canonical returns the name under which a scheme is registered: "w" for "rw", and any other name as it is.
func Canonical(name string) string {
	if own, ok := aliases[name]; ok {
		return own
	}
	return name
}

// Register adds a scheme under a name, for the command line, model files and reports to find it by. A
// name that is empty, has white space or is taken is an error, as is a nil scheme.
func Register(name string, s Scheme) error {
	if name == "" || strings.ContainsFunc(name, unicode.IsSpace) {
		return fmt.Errorf("%w: %q; give one word", ErrName, name)
	}
	if f, isFunc := s.(MassFunc); s == nil || isFunc && f == nil {
		return fmt.Errorf("%w: %q is nil; give a Scheme such as a MassFunc", ErrMass, name)
	}
	registry.Lock()
	defer registry.Unlock()
	if _, taken := registry.schemes[Canonical(name)]; taken {
		return fmt.Errorf("%w: %q; choose another name", ErrDuplicate, name)
	}
	registry.schemes[name] = s
	return nil
}

// Lookup returns the scheme registered under the name; "true", "naive", "w" (also "rw"), "pu", "ap" and
// "dr" always are.
func Lookup(name string) (Scheme, error) {
	registry.RLock()
	s, ok := registry.schemes[Canonical(name)]
	registry.RUnlock()
	if !ok {
		return nil, fmt.Errorf("%w: %q; have %s", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	return s, nil
}

// Names returns the registered names in alphabetical order, each scheme once.
func Names() []string {
	registry.RLock()
	defer registry.RUnlock()
	names := make([]string, 0, len(registry.schemes))
	for name := range registry.schemes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
