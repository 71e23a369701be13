package kern

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"unsafe"
)

// probeRows is how many rows a probe is compared with at a time.
const probeRows = 64

// Probe is a query, or a row of the codes, in a byte per element: what a search that goes from row to row compares with
// a few rows at a time. One goroutine may use it at a time.
type Probe struct {
	codes []int8
	zero  int32
	step  float32
	rows  [probeRows]int32
	// Ahead is what will be read after the next products: the processor is asked to fetch it meanwhile.
	Ahead []uint8
	sums  [probeRows]int32
}

// Ask makes a probe of a query. It reports false, and the probe is of no use, where the query is not finite or too
// large or too small.
func (c *Codes) Ask(p *Probe, q []float32) bool {
	if !codable(q) {
		return false
	}
	if len(p.codes) != c.stride {
		p.codes = make([]int8, c.stride)
	}
	steps, step, _, _ := split(c.turned(q), codeMost)
	p.step, p.zero = step, 0
	for d, x := range steps {
		p.codes[d] = int8(x)
		p.zero += codeZero * x
	}
	return true
}

// AskRow makes a probe of a row.
func (c *Codes) AskRow(p *Probe, i int32) {
	if len(p.codes) != c.stride {
		p.codes = make([]int8, c.stride)
	}
	p.zero = 0
	// eight bytes at a time: without the zero of 128 their bits are those of int8, and their sum is that of pairs
	const zeros, pairs = 0x8080808080808080, 0x00ff00ff00ff00ff
	row := c.bytes[int(i)*c.stride:][:c.stride]
	var sum uint64
	for d := 0; d < len(row); d += 8 {
		word := binary.LittleEndian.Uint64(row[d:])
		sum += word&pairs + word>>8&pairs
		if d%512 == 504 { // a pair has room for 128 sums
			p.zero += int32(sum>>48 + sum>>32&0xffff + sum>>16&0xffff + sum&0xffff)
			sum = 0
		}
		binary.LittleEndian.PutUint64(unsafe.Slice((*byte)(unsafe.Pointer(&p.codes[d])), 8), word^zeros)
	}
	p.zero += int32(sum>>48 + sum>>32&0xffff + sum>>16&0xffff + sum&0xffff)
	p.zero = codeZero * (p.zero - codeZero*int32(len(row)))
	p.step = c.scales[i]
}

// DotsAt sets dst to the probe's products with rows, which are near the inner products of what they are codes of.
func (c *Codes) DotsAt(dst []float32, p *Probe, rows []int32) {
	for len(rows) > 0 {
		some := p.rows[:copy(p.rows[:], rows)]
		for _, i := range some {
			_ = c.scales[i]
		}
		for len(some)%4 != 0 { // the kernel takes fours
			some = append(some, some[0])
		}
		dotCodesAt(p.sums[:], p.codes, c.bytes, c.stride, some, p.Ahead)
		count := min(len(rows), probeRows)
		for k, i := range some[:count] {
			dst[k] = float32(c.scales[i]*p.step) * float32(p.sums[k]-p.zero)
		}
		dst, rows = dst[count:], rows[count:]
	}
}

// Length is about how long a row is.
func (c *Codes) Length(i int32) float32 { return c.norms[i] }

// Alike reports whether a row has the same codes as one of others.
func (c *Codes) Alike(i int32, others *Codes, j int32) bool {
	alike := c.scales[i] == others.scales[j] && bytes.Equal(c.CodesOf(i), others.CodesOf(j))
	runtime.KeepAlive(c)
	runtime.KeepAlive(others)
	return alike
}

// CodesOf returns the bytes of a row, which are there as long as the codes are.
func (c *Codes) CodesOf(i int32) []uint8 { return c.bytes[int(i)*c.stride:][:c.stride] }

func dotCodesAtGo(sums []int32, q []int8, base []uint8, stride int, rows []int32) {
	for k, i := range rows {
		var sum int32
		for d, x := range base[int(i)*stride:][:stride] {
			sum += int32(q[d]) * int32(x)
		}
		sums[k] = sum
	}
}
