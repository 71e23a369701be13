package pickle

import (
	"math/big"
	"strings"
)

// resolve returns what a call would have returned where that is known and has no effect, and otherwise an
// Object. This list is all that is ever understood.
func (m *machine) resolve(g Global, args *Tuple) (any, error) {
	switch g.Module {
	case "numpy.core.multiarray", "numpy._core.multiarray", "numpy.core._internal", "numpy._core._internal":
		switch g.Name {
		case "_reconstruct": // an empty array, which BUILD fills
			return &Array{}, nil
		case "scalar":
			return scalar(args)
		}
	case "numpy.core.numeric", "numpy._core.numeric":
		if g.Name == "_frombuffer" {
			return fromBuffer(args)
		}
	case "numpy":
		if g.Name == "dtype" {
			return newDType(args)
		}
	case "_codecs":
		if g.Name == "encode" {
			return encode(args)
		}
	case "builtins", "__builtin__":
		switch g.Name {
		case "set", "frozenset":
			return m.setOf(args)
		case "bytearray", "bytes":
			return bytesOf(g, args)
		}
	case "collections":
		switch g.Name {
		case "OrderedDict", "defaultdict":
			return m.dictOf(g, args)
		}
	case "copyreg", "copy_reg":
		if g.Name == "_reconstructor" || g.Name == "__newobj__" {
			if len(args.Items) > 0 {
				if class, is := args.Items[0].(Global); is {
					return &Object{Global: class, Args: &Tuple{depth: 1}}, nil
				}
			}
			return nil, wrongf("it makes an instance of nothing")
		}
	}
	if isTensor(g) {
		if len(args.Items) == 0 {
			return nil, wrongf("it makes a tensor of nothing")
		}
		return args.Items[0], nil
	}
	return &Object{Global: g, Args: args}, nil
}

// isTensor tells the function that an eager tensor names when it is pickled. TensorFlow moved it about.
func isTensor(g Global) bool {
	if !strings.HasPrefix(g.Module, "tensorflow.") && !strings.HasPrefix(g.Module, "tensorflow_core.") {
		return false
	}
	switch g.Name {
	case "convert_to_tensor", "convert_to_tensor_v2", "convert_to_tensor_v1":
		return true
	case "convert":
		return strings.HasSuffix(g.Module, ".tensor_conversion_registry")
	}
	return false
}

// build does what BUILD asks of the value on top of the stack.
func (m *machine) build(target, state any) (err error) {
	switch t := target.(type) {
	case *Array:
		return t.build(state)
	case *DType:
		return t.build(state)
	case *Object:
		t.State = state
		t.depth, err = m.deeper(t.depth, state)
		return err
	case *Dict: // an OrderedDict with attributes
		return nil
	}
	return wrongf("it gives a state to %s", Describe(target))
}

// encode is _codecs.encode(text, "latin1"): how protocols before 3 write bytes.
func encode(args *Tuple) (any, error) {
	if len(args.Items) != 2 {
		return nil, wrongf("it encodes %d things", len(args.Items))
	}
	text, is := args.Items[0].(string)
	codec, too := args.Items[1].(string)
	if !is || !too || codec != "latin1" && codec != "latin-1" {
		return nil, wrongf("it encodes %s as %s", Describe(args.Items[0]), Describe(args.Items[1]))
	}
	out := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 255 {
			return nil, wrongf("it encodes U+%04X as latin1", r)
		}
		out = append(out, byte(r))
	}
	return out, nil
}

func (m *machine) setOf(args *Tuple) (any, error) {
	set := &Set{depth: 1}
	if len(args.Items) == 0 {
		return set, nil
	}
	switch from := args.Items[0].(type) {
	case *List:
		set.Items = append(set.Items, from.Items...)
	case *Tuple:
		set.Items = append(set.Items, from.Items...)
	default:
		return nil, wrongf("it makes a set of %s", Describe(from))
	}
	// A list of a thousand and a call of two bytes that names it again would copy without end.
	if m.copied += len(set.Items); m.copied > len(m.data) {
		return nil, wrongf("its sets hold more than the file")
	}
	var err error
	set.depth, err = m.deeper(1, set.Items...)
	return set, err
}

func bytesOf(g Global, args *Tuple) (any, error) {
	if len(args.Items) == 0 {
		return []byte(nil), nil
	}
	if b, is := args.Items[0].([]byte); is {
		return b, nil
	}
	if text, is := args.Items[0].(string); is { // bytearray(text, 'latin-1')
		return encode(&Tuple{Items: []any{text, "latin-1"}})
	}
	return nil, wrongf("it makes a %s of %s", g.Name, Describe(args.Items[0]))
}

func (m *machine) dictOf(g Global, args *Tuple) (any, error) {
	d := &Dict{depth: 1}
	for _, arg := range args.Items {
		pairs, is := arg.(*List) // Python 2 writes an OrderedDict as a list of pairs
		if !is {
			continue // what a defaultdict calls for a missing key
		}
		if m.copied += len(pairs.Items); m.copied > len(m.data) {
			return nil, wrongf("its dicts hold more than the file")
		}
		for _, p := range pairs.Items {
			var pair []any
			switch p := p.(type) {
			case *List:
				pair = p.Items
			case *Tuple:
				pair = p.Items
			}
			if len(pair) != 2 {
				return nil, wrongf("%s is made with %s, which is no key with its value", g, Describe(p))
			}
			if err := m.setIn(d, pair); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

// whole returns a whole number of a pickle as an int64.
func whole(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case *big.Int:
		return 0, false
	}
	return 0, false
}
