package report

import (
	"math"
	"strconv"
	"strings"
)

// axis maps numbers to pixels.
type axis struct {
	low, high float64 // of the numbers, low < high
	from, to  float64 // pixels
	log       bool
	ticks     []tick
}

type tick struct {
	value float64
	text  string
}

// newAxis makes an axis that numbers fit on, with about this many ticks. Numbers that cannot be shown are ignored;
// without any the axis runs from 0 to 1.
func newAxis(numbers []float64, log bool, about int) axis {
	low, high := math.Inf(1), math.Inf(-1)
	for _, x := range numbers {
		if finite(x) && (!log || x > 0) {
			low, high = math.Min(low, x), math.Max(high, x)
		}
	}
	if low > high {
		low, high = 0, 1
		if log {
			low, high = .1, 1
		}
	}
	if log {
		return logAxis(low, high, about)
	}
	if span := high - low; span <= 1e-12*math.Max(math.Abs(low), math.Abs(high)) || span == 0 {
		pad := math.Max(math.Abs(low)*.1, 1e-6)
		if low == 0 {
			pad = .5
		}
		low, high = low-pad, high+pad
	}
	step := niceStep((high - low) / float64(max(about, 1)))
	a := axis{low: math.Floor(low/step+1e-9) * step, high: math.Ceil(high/step-1e-9) * step}
	a.ticks = linearTicks(a.low, a.high, step)
	return a
}

// fixedAxis is an axis with given ends.
func fixedAxis(low, high float64, about int) axis {
	return axis{low: low, high: high, ticks: linearTicks(low, high, niceStep((high-low)/float64(max(about, 1))))}
}

func linearTicks(low, high, step float64) (ticks []tick) {
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	for k := math.Ceil(low/step - 1e-9); k*step <= high+1e-9*step && len(ticks) < 100; k++ {
		ticks = append(ticks, tick{k * step, number(k*step, digits)})
	}
	return ticks
}

// niceStep is the least of 1, 2 and 5 times a power of ten that is at least .9 x.
func niceStep(x float64) float64 {
	ten := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*ten >= x*.9 {
			return m * ten
		}
	}
	return 10 * ten
}

func logAxis(low, high float64, about int) axis {
	if high/low < 1.05 {
		low, high = low/1.5, high*1.5
	}
	low, high = low/1.06, high*1.06 // so that the frame cuts no mark
	a := axis{low: low, high: high, log: true}
	first, last := math.Floor(math.Log10(low)), math.Floor(math.Log10(high))
	within, every := []float64{1, 2, 5}, 1.
	if high/low > 300 { // only powers of ten, perhaps not all
		first, within = math.Ceil(math.Log10(low)), []float64{1}
		every = math.Max(1, math.Ceil((last-first)/float64(max(about, 1))))
	}
	for e := first; e <= last; e += every {
		for _, m := range within {
			if v := m * math.Pow(10, e); v >= low*(1-1e-9) && v <= high*(1+1e-9) {
				a.ticks = append(a.ticks, tick{v, number(v, max(0, int(-e)))})
			}
		}
	}
	if len(a.ticks) < 3 && high/low < 10 { // linear steps suit so narrow a range better
		a.ticks = linearTicks(low, high, niceStep((high-low)/float64(max(about, 1))))
	}
	return a
}

// fitted narrows a linear axis to the numbers and a share of their span on either side.
func (a axis) fitted(numbers []float64, pad float64) axis {
	low, high := math.Inf(1), math.Inf(-1)
	for _, x := range numbers {
		if finite(x) {
			low, high = math.Min(low, x), math.Max(high, x)
		}
	}
	if !(low < high) {
		return a
	}
	pad *= high - low
	low, high = math.Max(a.low, low-pad), math.Min(a.high, high+pad)
	var kept []tick
	for _, t := range a.ticks {
		if t.value >= low && t.value <= high {
			kept = append(kept, t)
		}
	}
	if len(kept) < 2 {
		return a
	}
	a.low, a.high, a.ticks = low, high, kept
	return a
}

// at is the pixel of a number; NaN for one that is not on the axis.
func (a axis) at(x float64) float64 {
	low, high := a.low, a.high
	if slack := 1e-6 * (high - low); !(x >= low-slack && x <= high+slack) {
		return math.NaN()
	}
	if a.log {
		if x <= 0 {
			return math.NaN()
		}
		x, low, high = math.Log(x), math.Log(low), math.Log(high)
	}
	return a.from + (x-low)/(high-low)*(a.to-a.from)
}

// widest is the width of the longest tick.
func (a axis) widest(size float64) (w float64) {
	for _, t := range a.ticks {
		w = math.Max(w, measure(t.text, size, false))
	}
	return w
}

// number writes a number with this many digits after the point, a true minus, and commas between thousands.
func number(x float64, digits int) string {
	switch {
	case math.IsNaN(x):
		return "no value"
	case math.IsInf(x, 1):
		return "∞"
	case math.IsInf(x, -1):
		return "−∞"
	case math.Abs(x) >= 1e15 || digits > 9:
		return strings.Replace(strconv.FormatFloat(x, 'g', 3, 64), "-", "−", 1)
	}
	text := strconv.FormatFloat(math.Abs(x), 'f', digits, 64)
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		whole += "." + rest
	}
	if x < 0 && strings.Trim(whole, "0.,") != "" {
		return "−" + whole
	}
	return whole
}

// brief writes a number with three significant digits.
func brief(x float64) string {
	if x == 0 || !finite(x) {
		return number(x, 0)
	}
	return number(x, max(0, 2-int(math.Floor(math.Log10(math.Abs(x))))))
}
