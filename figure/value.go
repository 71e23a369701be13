package figure

import (
	"encoding/json"
	"math"
)

// Value is a number that may be missing: NaN in Go, null in JSON. JSON has no infinity, which is written as null too.
type Value float64

// MarshalJSON writes null for what is not finite.
func (v Value) MarshalJSON() ([]byte, error) {
	if x := float64(v); finite(x) {
		return json.Marshal(x)
	}
	return []byte("null"), nil
}

// UnmarshalJSON reads null as NaN.
func (v *Value) UnmarshalJSON(raw []byte) error {
	var x *float64
	if err := json.Unmarshal(raw, &x); err != nil {
		return err
	}
	*v = Value(orNaN(x))
	return nil
}

// Values are numbers of which any may be missing, as with [Value].
type Values []float64

// MarshalJSON writes null for what is not finite.
func (v Values) MarshalJSON() ([]byte, error) {
	out := make([]*float64, len(v))
	for i := range v {
		if finite(v[i]) {
			out[i] = &v[i]
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads null as NaN.
func (v *Values) UnmarshalJSON(raw []byte) error {
	var in []*float64
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	*v = make(Values, len(in))
	for i, x := range in {
		(*v)[i] = orNaN(x)
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func orNaN(x *float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return *x
}
