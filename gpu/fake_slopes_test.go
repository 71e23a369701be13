package gpu

import (
	"math"
	"strings"

	"unseen/internal/kern"
)

// numbersOf reads and writes rows of a format.
func (f *fakeCard) numbersOf(format RowFormat, address uint64, n int) (read func(k int) float32, write func(k int,
	x float32)) {
	switch format {
	case Float32:
		all := view[float32](f, address, n)
		return func(k int) float32 { return all[k] }, func(k int, x float32) { all[k] = x }
	case Float16:
		all := view[uint16](f, address, n)
		return func(k int) float32 {
			one := make([]float32, 1)
			kern.FromHalf(one, all[k:k+1])
			return one[0]
		}, func(k int, x float32) { kern.ToHalf(all[k:k+1], []float32{x}) }
	}
	all := view[uint16](f, address, n)
	return func(k int) float32 { return math.Float32frombits(uint32(all[k]) << 16) }, func(k int, x float32) {
		all[k] = toBFloat16(x)
	}
}

// runSlopes does what the kernels of kernels/slopes.cu and kernels/hopper_slopes.cu do.
func (f *fakeCard) runSlopes(name string, l launching) int32 {
	list := l.arguments
	_, format, _ := strings.Cut(name, "_")
	switch {
	case f.fast[l.function-1] != (name == "slopePairs" || name == "slopeDensePairs" || name == "addSlopes"):
		return 1
	case strings.HasPrefix(name, "scaleRows"):
		n, dim := int(*(*uint64)(list[3])), int(*(*uint32)(list[4]))
		rows, _ := f.numbersOf(RowFormat(format), *(*uint64)(list[0]), n)
		_, write := f.numbersOf(RowFormat(format), *(*uint64)(list[2]), n)
		w := view[float32](f, *(*uint64)(list[1]), dim)
		for k := range n {
			write(k, rows(k)*w[k%dim])
		}
		return 0
	case name == "turnRows":
		n, dim := int(*(*uint32)(list[2])), int(*(*uint32)(list[3]))
		from, to := view[uint16](f, *(*uint64)(list[0]), n*dim), view[uint16](f, *(*uint64)(list[1]), n*dim)
		for k, x := range from {
			i := k / dim
			to[(i/64*dim+k%dim)*64+i%64] = x
		}
		return 0
	}
	j := (*slopeJob)(list[0])
	if name == "addEnds" {
		f.addEnds(j, *(*uint32)(list[1]))
		return 0
	}
	pairs := name == "slopePairs" || name == "slopeDensePairs"
	if strings.Contains(name, "Dense") != (j.terms != 0) && name != "addSlopes" {
		return 1
	}
	size := int(j.n * j.dim)
	switch {
	case pairs && (f.shapes[list[1]] != [4]uint32{j.n, j.dim, slopeTile, 64} ||
		f.shapes[list[2]] != [4]uint32{j.n, j.dim, 2 * slopeTile, 64}),
		name == "addSlopes" && f.shapes[list[1]] != [4]uint32{j.n / 64 * j.dim, 64, slopeNumbers, 64}:
		return 1
	}
	switch {
	case pairs:
		queries, _ := f.numbersOf(BFloat16, f.maps[list[1]], size)
		rows, _ := f.numbersOf(BFloat16, f.maps[list[2]], size)
		for number := j.from; number < j.to; number++ {
			high := uint64(j.bottom - j.top)
			row, column := j.top+uint32(number%(high*4)/4), uint32(number/(high*4)*8+number%4*2)
			for k := column; k < column+2 && k <= row && column < j.across; k++ {
				f.slopeTile(j, [3]uint32{row, k, slopeTile}, queries, rows, nil)
			}
		}
	case name == "addSlopes":
		turned := view[uint16](f, f.maps[list[1]], size)
		rows, _ := f.numbersOf(BFloat16, *(*uint64)(list[2]), size)
		f.addSlopes(j, turned, rows)
	default:
		queries, _ := f.numbersOf(RowFormat(format), *(*uint64)(list[1]), size)
		rows, _ := f.numbersOf(RowFormat(format), *(*uint64)(list[2]), size)
		for number := j.from; number < j.to; number++ {
			high := uint64(j.bottom - j.top)
			if row, column := j.top+uint32(number%high), uint32(number/high); column <= row &&
				column < j.across {
				f.slopeTile(j, [3]uint32{row, column, 64}, queries, rows, view[float64](f, j.weights, int(j.dim)))
			}
		}
	}
	return 0
}

// pieceOf is where the slope of row i and column k of a tile is put aside, in numbers of 16 bits.
func pieceOf(i, k uint32) uint32 {
	lane := i%8*4 + k%8/2
	thread := i%64/16*32 + lane
	return (((k/64*2+i/64)*4+k%64/16)*128+thread)*8 + (k%16/8*2+i%16/8)*2 + k%2
}

// slopeTile adds the pairs of a tile; where there are weights it multiplies at once, and else puts slopes aside.
func (f *fakeCard) slopeTile(j *slopeJob, at [3]uint32, queries, rows func(int) float32, weights []float64) {
	tiles, ids := view[[2]int32](f, j.tiles, int(j.n/at[2])), view[[2]int32](f, j.nodes, int(j.n))
	a, b := uint32(tiles[at[0]][0]), uint32(tiles[at[1]][0])
	pi := view[[4]float32](f, j.table, int(j.fields*j.fields))[a*j.fields+b]
	cells, sums := view[float64](f, j.cells, int(j.fields*j.fields)), view[float64](f, j.sums, slopeSums)
	dim := int(j.dim)
	var terms [][2]float32
	var sides [][2]float32 // of rows, and of columns by part
	if j.terms != 0 {
		each := (1 + slopeParts) * uint64(at[2])
		terms = view[[2]float32](f, j.terms, int(j.n))
		sides = view[[2]float32](f, j.sides+(uint64(at[0]-j.top)*uint64(j.bottom)+uint64(at[1]))*each*8, int(each))
		clear(sides)
	}
	var aside []uint16
	if weights == nil {
		tile := uint64(at[0]-j.top)*uint64(j.bottom) + uint64(at[1])
		aside = view[uint16](f, j.slopes+tile*slopeBytes, slopeBytes/2)
	}
	for r := range at[2] {
		for c := range at[2] {
			i, k := int(at[0]*at[2]+r), int(at[1]*at[2]+c)
			is := func(source, target int) float64 {
				if i > k && ids[source][1]&1 != 0 && ids[target][1]&2 != 0 && (j.ordered == 0 ||
					ids[target][0] < ids[source][0]) {
					return 1
				}
				return 0
			}
			there, back := is(i, k), is(k, i)
			z := float64(j.offset)
			for d := 0; d < dim && there+back > 0; d++ {
				z += float64(queries(i*dim+d)) * float64(rows(k*dim+d))
			}
			y, u := kern.Sigmoid64(z)
			one := [4]float64{float64(pi[0]), float64(pi[1]), float64(pi[2]), float64(pi[3])}
			if terms != nil {
				s := one[0] + float64(terms[i][0]) + float64(terms[k][1])
				t := one[2] + float64(terms[k][0]) + float64(terms[i][1])
				one[0], one[1] = kern.Sigmoid64(float64(j.gamma)*z - s/math.Log2E)
				one[2], one[3] = kern.Sigmoid64(float64(j.gamma)*z - t/math.Log2E)
			}
			q, p := u+one[1]*y, u+one[3]*y
			g := y * u * (there*one[0]/q + back*one[2]/p)
			d, e := there*one[0]*one[1]*y/q, back*one[2]*one[3]*y/p
			if terms != nil {
				g += float64(j.gamma) * (d + e)
				part := (1+r/8%slopeParts)*at[2] + c
				sides[r][0], sides[r][1] = sides[r][0]+float32(d), sides[r][1]+float32(e)
				sides[part][0], sides[part][1] = sides[part][0]+float32(e), sides[part][1]+float32(d)
			}
			sums[0] -= there*math.Log1p(-one[0]*y) + back*math.Log1p(-one[2]*y)
			sums[1] += g
			sums[2] += there + back
			sums[3] += z * (d + e)
			cells[a*j.fields+b] += d
			cells[b*j.fields+a] += e
			if weights == nil {
				aside[pieceOf(r, c)] = toBFloat16(float32(g))
				continue
			}
			for d := 0; d < dim && g != 0; d++ {
				weights[d] += g * float64(rows(i*dim+d)) * float64(rows(k*dim+d))
			}
		}
	}
}

// addEnds adds what the tiles of a stripe have put aside to their nodes.
func (f *fakeCard) addEnds(j *slopeJob, tile uint32) {
	ends := view[[2]float64](f, j.ends, 2*int(j.n))
	each := (1 + slopeParts) * tile
	for row := j.top; row < j.bottom; row++ {
		for column := range min(row+1, j.across) {
			sides := view[[2]float32](f, j.sides+(uint64(row-j.top)*uint64(j.bottom)+uint64(column))*uint64(each)*8,
				int(each))
			for k, x := range sides {
				at := row*tile + uint32(k)
				if part := uint32(k) / tile; part > 0 {
					at = j.n + column*tile + uint32(k)%tile
				}
				ends[at][0], ends[at][1] = ends[at][0]+float64(x[0]), ends[at][1]+float64(x[1])
			}
		}
	}
}

// addSlopes multiplies the slopes of a stripe, part by part.
func (f *fakeCard) addSlopes(j *slopeJob, turned []uint16, rows func(int) float32) {
	weights := view[float64](f, j.weights, int(j.dim))
	wide := (j.dim + slopeNumbers - 1) / slopeNumbers
	each := (j.bottom - j.top) * wide
	for at := j.from; at < j.to; at++ {
		within := uint32(at) % each
		row, first := j.top+within/wide, within%wide*slopeNumbers
		from := uint32(at) / each * slopeSegment
		for tile := from; tile < min(from+slopeSegment, row+1, j.across); tile++ {
			base := j.slopes + (uint64(row-j.top)*uint64(j.bottom)+uint64(tile))*slopeBytes
			slopes := view[uint16](f, base, slopeBytes/2)
			for r := range uint32(slopeTile) {
				for c := range uint32(slopeTile) {
					g := float64(math.Float32frombits(uint32(slopes[pieceOf(r, c)]) << 16))
					for d := first; d < min(first+slopeNumbers, j.dim) && g != 0; d++ {
						other := math.Float32frombits(uint32(turned[((tile*slopeTile+c)/64*j.dim+d)*64+c%64]) << 16)
						weights[d] += g * float64(rows(int((row*slopeTile+r)*j.dim+d))) * float64(other)
					}
				}
			}
		}
	}
}
