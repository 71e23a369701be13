// Package pickle reads Python's pickles without running them.
//
// A pickle is a program for a small stack machine: it pushes numbers and texts, builds lists and
// dictionaries, and calls whatever function it names. Python calls it, which is why a pickle from a
// stranger must not be loaded there. Here a name is only a name: a call becomes an Object that says what
// would have been called with what, and nothing more happens.
//
//	v, n, err := pickle.Decode(data, pickle.Limits{})
//	ids := v.(*pickle.List).Items
//	vector, err := ids[0].(*pickle.Array).Float32s()
//
// Python's values become Go's as follows.
//
//	None, bool, float         nil, bool, float64
//	int                       int64, or *big.Int where it does not fit
//	str, bytes, bytearray     string, []byte (a part of the input, not a copy)
//	tuple, list, set, dict    *Tuple, *List, *Set, *Dict
//	class or function         Global
//	instance, call            *Object
//
// A few calls have a known meaning and no effect, and are resolved: NumPy's arrays (*Array), its scalars
// (int64, float64, bool) and dtypes (*DType), TensorFlow's eager tensors, which pickle as
// convert_to_tensor(array) and become that array, and the roundabout ways in which old protocols write
// bytes, sets, ordered dictionaries and plain instances. Everything else stays an Object, such as a
// pandas.core.frame.DataFrame, and it is for the caller to refuse it by its name.
//
// All protocols from 0 to 5 are read, with their frames; buffers and objects kept outside of the file, and
// numbers of the extension registry, are not.
//
// # Hostile files
//
// A length is compared with what is left of the input before anything is allocated, so that memory stays
// within a fixed multiple of the input's size (about fifty, for a file made of nothing but empty lists).
// Limits bound the stack, the memo and the depth of nesting. A value may still contain itself, through the
// memo, so whoever walks one must count his steps. An Error says at which byte and in which instruction.
package pickle
