package gpu

import (
	"cmp"
	"math"
	"slices"
	"unsafe"

	"unseen/internal/kern"
)

// view is memory of the card as values.
func view[T any](f *fakeCard, address uint64, n int) []T {
	if n == 0 {
		return nil
	}
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(&f.at(address, uint64(n)*uint64(unsafe.Sizeof(one)))[0])), n)
}

// runLists does what the kernels of kernels/lists.cu and kernels/hopper_lists.cu do.
func (f *fakeCard) runLists(name string, l launching) int32 {
	list := l.arguments
	if f.fast[l.function-1] != (l.threads == 384) {
		return 1 // the arguments of another kernel
	}
	if name == "gatherRows" {
		from, which, to := *(*uint64)(list[0]), *(*uint64)(list[1]), *(*uint64)(list[2])
		count, words := *(*uint32)(list[3]), *(*uint32)(list[4])
		for k, row := range view[uint32](f, which, int(count)) {
			copy(f.at(to+uint64(k)*uint64(words)*4, uint64(words)*4),
				f.at(from+uint64(row)*uint64(words)*4, uint64(words)*4))
		}
		return 0
	}
	s := (*search)(list[0])
	switch name {
	case "findPairs_float32", "findPairs_float16":
		f.findPairs(s, name == "findPairs_float16", list)
	case "setLeast":
		least, counts := view[float32](f, s.least, int(s.m)), view[uint32](f, s.counts, int(s.m))
		for i := range least {
			row := slices.Clone(view[float32](f, s.scores+uint64(i)*uint64(s.n)*4, int(s.n)))
			slices.SortFunc(row, func(a, b float32) int { return cmp.Compare(b, a) })
			if least[i] = float32(math.Inf(-1)); s.rank <= s.n {
				least[i] = row[s.rank-1]
			}
			counts[i] = 0
		}
	case "keepBest":
		f.keepBest(s)
	case "rescore":
		f.rescore(s, list)
	default:
		return 1
	}
	return 0
}

// findPairs looks through the tiles of one launch.
func (f *fakeCard) findPairs(s *search, half bool, list []unsafe.Pointer) {
	cut := tiling{512, 64, 64}
	row := func(argument unsafe.Pointer, k uint32) []float32 {
		return view[float32](f, *(*uint64)(argument)+uint64(k)*uint64(s.dim)*4, int(s.dim))
	}
	if half {
		cut = tiling{2048, 128, 256}
		row = func(argument unsafe.Pointer, k uint32) []float32 {
			out := make([]float32, s.dim)
			kern.FromHalf(out, view[uint16](f, f.maps[argument]+uint64(k)*uint64(s.dim)*2, int(s.dim)))
			return out
		}
	}
	j := job{m: s.m, n: s.n}
	for number := s.from; number < s.to; number++ {
		r, c, ok := tileAt(&j, number, cut)
		if !ok {
			continue
		}
		for i := r * uint32(cut.rows); i < min((r+1)*uint32(cut.rows), s.m); i++ {
			query := row(list[1], i)
			for t := c * uint32(cut.columns); t < min((c+1)*uint32(cut.columns), s.n); t++ {
				var product float64
				for d, x := range row(list[2], t) {
					product += float64(query[d]) * float64(x)
				}
				f.offer(s, i, t, f.scoreOf(s, i, t, product*float64(view[float32](f, s.scales, int(s.m))[i])))
			}
		}
	}
}

func (f *fakeCard) scoreOf(s *search, i, t uint32, score float64) float32 {
	if s.offsets != 0 {
		field := view[uint32](f, s.fields, int(s.n))[t]
		score += float64(view[float32](f, s.offsets, int(s.m*s.fieldCount))[i*s.fieldCount+field])
	}
	if s.slopes != 0 {
		score += float64(view[float32](f, s.slopes, int(s.m))[i]) * float64(view[float32](f, s.values, int(s.n))[t])
	}
	return float32(score)
}

func (f *fakeCard) offer(s *search, i, t uint32, score float32) {
	if s.among != 0 && f.at(s.among, uint64(s.n))[t] == 0 {
		score = float32(math.Inf(-1))
	}
	if s.scores != 0 {
		view[float32](f, s.scores, int(s.m)*int(s.n))[uint64(i)*uint64(s.n)+uint64(t)] = score
		return
	}
	if score > view[float32](f, s.least, int(s.m))[i] {
		count := &view[uint32](f, s.counts, int(s.m))[i]
		if *count < s.room {
			view[[2]uint32](f, s.found, int(s.m*s.room))[i*s.room+*count] = [2]uint32{math.Float32bits(score), t}
		}
		*count++
	}
}

func (f *fakeCard) keepBest(s *search) {
	counts, least := view[uint32](f, s.counts, int(s.m)), view[float32](f, s.least, int(s.m))
	for i := range counts {
		if counts[i] > s.room {
			counts[i] = noRoom
			continue
		}
		found := slices.Clone(view[[2]uint32](f, s.found+uint64(i)*uint64(s.room)*8, int(counts[i])))
		slices.SortFunc(found, func(a, b [2]uint32) int {
			return cmp.Compare(math.Float32frombits(b[0]), math.Float32frombits(a[0]))
		})
		if len(found) > int(s.keep) {
			last := found[s.keep-1][0]
			if found[s.keep][0] == last {
				counts[i] = noRoom
				continue
			}
			least[i], counts[i] = math.Float32frombits(last), s.keep
		}
		copy(view[[2]uint32](f, s.kept+uint64(i)*uint64(s.keep)*8, int(s.keep)), found[:counts[i]])
	}
}

func (f *fakeCard) rescore(s *search, list []unsafe.Pointer) {
	width := uint64(*(*uint32)(list[3]))
	for i, count := range view[uint32](f, s.counts, int(s.m)) {
		if count == noRoom {
			continue
		}
		query := view[float32](f, *(*uint64)(list[1])+uint64(i)*width*4, int(width))
		for k, pair := range view[[2]uint32](f, s.kept+uint64(i)*uint64(s.keep)*8, int(count)) {
			var product float64
			for d, x := range view[float32](f, *(*uint64)(list[2])+uint64(pair[1])*width*4, int(width)) {
				product += float64(query[d]) * float64(x)
			}
			view[[2]uint32](f, s.kept+uint64(i)*uint64(s.keep)*8, int(count))[k][0] =
				math.Float32bits(f.scoreOf(s, uint32(i), pair[1], product))
		}
	}
}
