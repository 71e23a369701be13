package gpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"unsafe"

	"unseen/internal/kern"
)

// fakeCard stands in for the driver: its memory is this program's, and its kernels are loops in float64 over the same
// tiles, tables and lists as the real ones'.
type fakeCard struct {
	driver
	capability int32
	memory     map[uint64][]byte
	next       uint64
	names      []string // of kernels, by their number
	fast       []bool   // which of them are Hopper's
	maps       map[unsafe.Pointer]uint64
	shapes     map[unsafe.Pointer][4]uint32 // of what is mapped: rows, their numbers, and those of a box
	fails      map[string]int32             // what a call returns instead of being done
	left       uint64                       // memory
	likely     bool                         // powers are never enough
	unlikely   int                          // launches of sums by powers
	runs       int                          // launches of sums
}

const fakeProcessors = 3

func newFakeCard(capability int32) *fakeCard {
	f := &fakeCard{capability: capability, memory: map[uint64][]byte{}, next: 1 << 20,
		maps: map[unsafe.Pointer]uint64{}, shapes: map[unsafe.Pointer][4]uint32{}, fails: map[string]int32{},
		left: 1 << 30}
	ok := func(name string) int32 { return f.fails[name] }
	f.cuInit = func(uint32) int32 { return ok("cuInit") }
	f.cuGetErrorString = func(int32, *uintptr) int32 { return 1 }
	f.cuDriverGetVersion = func(v *int32) int32 { *v = 13000; return ok("cuDriverGetVersion") }
	f.cuDeviceGetCount = func(n *int32) int32 { *n = 1; return ok("cuDeviceGetCount") }
	f.cuDeviceGet = func(d *int32, _ int32) int32 { *d = 7; return ok("cuDeviceGet") }
	f.cuDeviceGetName = func(name *byte, size, _ int32) int32 {
		copy(unsafe.Slice(name, size), "a card that is not there")
		return ok("cuDeviceGetName")
	}
	f.cuDeviceGetAttribute = func(v *int32, which, _ int32) int32 {
		*v = map[int32]int32{attributeProcessors: fakeProcessors, attributeMajor: f.capability / 10,
			attributeMinor: f.capability % 10}[which]
		return ok("cuDeviceGetAttribute")
	}
	f.cuDeviceTotalMem_v2 = func(b *uint64, _ int32) int32 { *b = f.left; return 0 }
	f.cuDevicePrimaryCtxRetain = func(c *uintptr, _ int32) int32 { *c = 1; return ok("cuDevicePrimaryCtxRetain") }
	f.cuDevicePrimaryCtxRelease_v2 = func(int32) int32 { return 0 }
	f.cuCtxSetCurrent = func(uintptr) int32 { return ok("cuCtxSetCurrent") }
	f.cuCtxSynchronize = func() int32 { return ok("cuCtxSynchronize") }
	f.cuModuleLoadData = func(m *uintptr, image unsafe.Pointer) int32 {
		if *m = 1; *(*byte)(image) == 0x7f { // machine code, and no text
			*m = 2
		}
		return ok("cuModuleLoadData")
	}
	f.cuModuleUnload = func(uintptr) int32 { return 0 }
	f.cuModuleGetFunction = func(fn *uintptr, module uintptr, name *byte) int32 {
		f.fast = append(f.fast, module == 2)
		f.names = append(f.names, string(unsafe.Slice(name, lengthAt(unsafe.Pointer(name)))))
		*fn = uintptr(len(f.names))
		return ok("cuModuleGetFunction")
	}
	f.cuFuncSetAttribute = func(uintptr, int32, int32) int32 { return ok("cuFuncSetAttribute") }
	f.cuMemAlloc_v2 = func(a *uint64, bytes uint64) int32 {
		if bytes > f.left {
			return 2
		}
		f.left -= bytes
		*a, f.next = f.next, f.next+(bytes+1023)/512*512
		f.memory[*a] = make([]byte, bytes)
		return ok("cuMemAlloc")
	}
	f.cuMemFree_v2 = func(a uint64) int32 { f.left += uint64(len(f.memory[a])); delete(f.memory, a); return 0 }
	f.cuMemcpyHtoD_v2 = func(to uint64, from unsafe.Pointer, n uint64) int32 {
		copy(f.at(to, n), unsafe.Slice((*byte)(from), n))
		return ok("cuMemcpyHtoD")
	}
	f.cuMemcpyDtoH_v2 = func(to unsafe.Pointer, from, n uint64) int32 {
		copy(unsafe.Slice((*byte)(to), n), f.at(from, n))
		return ok("cuMemcpyDtoH")
	}
	f.cuMemsetD8_v2 = func(to uint64, v uint8, n uint64) int32 {
		for all, k := f.at(to, n), 0; k < len(all); k++ {
			all[k] = v
		}
		return 0
	}
	f.encode = func(m mapping) int32 {
		f.maps[m.to], f.shapes[m.to] = m.address, [4]uint32{m.rows, m.dim, m.boxRows, m.boxOf}
		return ok("cuTensorMapEncodeTiled")
	}
	f.launch = f.run
	return f
}

// at is memory of the card; what is not its own takes the test down.
func (f *fakeCard) at(address, n uint64) []byte {
	for start, b := range f.memory {
		if address >= start && address+n <= start+uint64(len(b)) {
			return b[address-start:][:n]
		}
	}
	panic("memory that is not there")
}

func (f *fakeCard) run(l launching) int32 {
	if code := f.fails["cuLaunchKernel"]; code != 0 {
		return code
	}
	name, list, blocks := f.names[l.function-1], l.arguments, l.blocks
	switch {
	case slices.Contains([]string{"dotPairs", "addPairs", "addSquares", "addLengths"}, name):
		return f.runSampled(name, l)
	case strings.Contains(strings.ToLower(name), "slope"), strings.HasPrefix(name, "scaleRows"), name == "turnRows",
		name == "addEnds":
		return f.runSlopes(name, l)
	case !strings.HasPrefix(name, "sum"):
		return f.runLists(name, l)
	}
	f.runs++
	j := *(*job)(list[0])
	rows := func(argument unsafe.Pointer, count uint32) func(k, d uint32) float64 {
		address, mapped := f.maps[argument]
		if !mapped {
			address = *(*uint64)(argument)
		}
		wide := uint64(4)
		if !slices.Contains([]string{"sumPairs_float32"}, name) {
			wide = 2
		}
		all := f.at(address, uint64(count)*uint64(j.dim)*wide)
		return func(k, d uint32) float64 {
			at := (uint64(k)*uint64(j.dim) + uint64(d)) * wide
			switch {
			case wide == 4:
				return float64(math.Float32frombits(binary.LittleEndian.Uint32(all[at:])))
			case name == "sumPairs_float16" || name == "sumDense_float16":
				one := make([]float32, 1)
				kern.FromHalf(one, []uint16{binary.LittleEndian.Uint16(all[at:])})
				return float64(one[0])
			}
			return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(all[at:])) << 16))
		}
	}
	cut, summing := tiling{512, 64, 64}, l.threads
	powers := strings.HasPrefix(name, "sumPowers")
	if f.fast[l.function-1] != (l.threads != 256) || powers != (l.threads == 384) {
		return 1 // the arguments of another kernel
	}
	switch l.threads {
	case 640:
		cut, summing = tiling{1024, 128, 128}, 384
	case 384:
		cut, summing = tiling{3072, 256, 192}, 256
		f.unlikely++
		var slices uint32 // after each of which there is a step, and two blocks work together
		_, err := fmt.Sscanf(name, "sumPowers%d_bfloat16", &slices)
		if err != nil || slices*64 > j.dim || blocks%2 != 0 || j.both == 0 || j.dense != 0 {
			return 1
		}
		if f.shapes[list[1]] != [4]uint32{j.m, j.dim, 128, 64} || f.shapes[list[2]] != [4]uint32{j.n, j.dim, 96, 64} {
			return 1 // each of the two fetches its own rows, and half of the columns' for both
		}
	}
	if j.targetTerms%16 != 0 {
		return 716 // the card reads those of two targets at a time
	}
	sums := make([]float64, blocks*summing*perThread)
	a, b := rows(list[1], j.m), rows(list[2], j.n)
	for number := j.from; number < j.to; number++ {
		if row, column, ok := tileAt(&j, number, cut); ok {
			own := sums[(number-j.from)%uint64(blocks)*uint64(summing)*perThread:]
			f.tile(&j, [4]uint32{row, column, uint32(cut.rows), uint32(cut.columns)}, a, b, own)
		}
	}
	for k := 0; k < len(sums); k += perThread {
		if l.threads == 384 && !f.likely {
			sums[k+7] = sums[k+5]
		}
	}
	copy(f.at(j.sums, uint64(len(sums))*8), unsafe.Slice((*byte)(unsafe.Pointer(&sums[0])), len(sums)*8))
	return 0
}

// tileAt is that of the kernels.
func tileAt(j *job, number uint64, cut tiling) (row, column uint32, ok bool) {
	down, across := cut.edge/cut.rows, cut.edge/cut.columns
	square, within := number/(down*across), number%(down*across)
	var r, c uint64
	if j.triangle != 0 {
		for (r+1)*(r+2)/2 <= square {
			r++
		}
		c = square - r*(r+1)/2
	} else {
		wide := (uint64(j.n) + cut.edge - 1) / cut.edge
		r, c = square/wide, square%wide
	}
	r, c = r*down+within/across, c*across+within%across
	return uint32(r), uint32(c), r*cut.rows < uint64(j.m) && c*cut.columns < uint64(j.n) &&
		!(j.triangle != 0 && c*cut.columns >= (r+1)*cut.rows)
}

// tile adds the pairs of a tile to the first sums.
func (f *fakeCard) tile(j *job, at [4]uint32, a, b func(k, d uint32) float64, sums []float64) {
	first, left := at[0]*at[2], at[1]*at[3]
	ids := func(address uint64, k uint32) [2]int32 {
		return *(*[2]int32)(unsafe.Pointer(&f.at(address+8*uint64(k), 8)[0]))
	}
	four := func(address uint64, k uint32) [4]float32 {
		return *(*[4]float32)(unsafe.Pointer(&f.at(address+16*uint64(k), 16)[0]))
	}
	for i := first; i < min(first+at[2], j.m); i++ {
		for t := left; t < min(left+at[3], j.n); t++ {
			source, target := ids(j.sources, i), ids(j.targets, t)
			switch {
			case j.triangle != 0 && i <= t, j.triangle == 0 && j.ordered != 0 && target[0] >= source[0],
				j.triangle == 0 && j.ordered == 0 && target[0] == source[0]:
				continue
			}
			at := 2 * (uint32(source[1])*j.fields + uint32(target[1]))
			returns := 2 * (uint32(target[1])*j.fields + uint32(source[1]))
			terms := four(j.sourceTerms, i)
			other := *(*[2]float32)(unsafe.Pointer(&f.at(j.targetTerms+8*uint64(t), 8)[0]))
			z := float64(terms[0]) + float64(four(j.table, at)[0])
			for d := range j.dim {
				z += a(i, d) * b(t, d)
			}
			there, back := four(j.table, at+1), four(j.table, returns+1)
			if j.dense != 0 {
				there = f.dense(j, float64(four(j.table, at)[1])+float64(j.gamma)*z+float64(terms[1])+float64(other[1]))
				back = f.dense(j, float64(four(j.table, returns)[1])+float64(j.gamma)*z+float64(other[0])+
					float64(terms[2]))
			}
			one := directionOf(z, there)
			if j.both != 0 {
				for k, x := range directionOf(z, back) {
					if k >= 2 && k != 5 {
						one[k] += x
					}
				}
			}
			for k, x := range one {
				sums[k] += x
			}
		}
	}
}

func (f *fakeCard) dense(j *job, s float64) [4]float32 {
	pi, rest := kern.Sigmoid64(s)
	return [4]float32{float32(pi), float32(rest), max(float32(pi), j.floor), min(float32(rest), 1-j.floor)}
}

// directionOf is what a pair adds.
func directionOf(z float64, pi [4]float32) (out [perThread]float64) {
	sigma, other := kern.Sigmoid64(z)
	no, yes := math.Max(z, 0)+math.Log1p(math.Exp(-math.Abs(z))), math.Max(-z, 0)+math.Log1p(math.Exp(-math.Abs(z)))
	masked := float64(pi[3]) * sigma
	return [...]float64{sigma, no, -math.Log1p(-float64(pi[0]) * sigma), other / (masked + other) * no,
		masked / (masked + other) * yes, 1, float64(pi[0]), 0}
}
