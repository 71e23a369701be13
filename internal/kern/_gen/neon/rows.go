package main

import "fmt"

// The row kernels walk a few rows at once: four chains of additions for each row keep the processor busy, and the query
// or the sum is read once for all of them.

// span is how rows are read: their elements are float32 or float16.
type span struct {
	*routine
	half bool
}

func (p span) suffix() string {
	if p.half {
		return "HalfNEON"
	}
	return "NEON"
}

func pointer(half bool) string {
	if half {
		return " *uint16"
	}
	return " *float32"
}

// read loads four vectors, or one, of row elements as float32 and moves the pointer behind them.
func (p span) read(from string, count int) []vec {
	if !p.half {
		return p.floats(from, count)
	}
	out := p.group(count)
	if count == 1 {
		h := p.vec()
		p.on("FMOVD.P 8("+from+"), F%d", h)
		p.widen(out[0], h, false)
		return out
	}
	both := p.group(2)
	p.on("FLDPQ.P 32("+from+"), (F%d, F%d)", both...)
	for i, v := range out {
		p.widen(v, both[i/2], i%2 == 1)
	}
	return out
}

// floats loads four vectors, or one, of float32 and moves the pointer behind them.
func (r *routine) floats(from string, count int) []vec {
	out := r.group(count)
	if count == 1 {
		r.on("FMOVQ.P 16("+from+"), F%d", out[0])
		return out
	}
	for i := 0; i < count; i += 2 {
		r.on("FLDPQ.P 32("+from+"), (F%d, F%d)", out[i], out[i+1])
	}
	return out
}

// peek loads like floats and leaves the pointer.
func (r *routine) peek(from string, count int) []vec {
	out := r.group(count)
	for i, v := range out {
		r.on(fmt.Sprintf("FMOVQ %d(%s), F%%d", 16*i, from), v)
	}
	return out
}

// write stores vectors and moves the pointer behind them, on its own: the next address should not wait for the values.
func (r *routine) write(to string, values []vec) {
	for i, v := range values {
		r.on(fmt.Sprintf("FMOVQ F%%d, %d(%s)", 16*i, to), v)
	}
	r.do("ADD $%d, %s", 16*len(values), to)
}

// readOne loads a single element as float32 and moves the pointer behind it.
func (p span) readOne(from string) vec {
	v := p.vec()
	if !p.half {
		p.on("FMOVS.P 4("+from+"), F%d", v)
		return v
	}
	p.do("MOVHU.P 2(%s), R26", from)
	p.on("FMOVS R26, F%d", v)
	p.on("FCVTHS F%d, F%d", v, v)
	return v
}

// walk emits the loop over the elements of a row: step for 16 or 4 of them, then between, then one for each of those
// that are left.
func (p span) walk(label, dim, left string, step func(count int), between func(), one func()) {
	p.do("MOVD %s, %s", dim, left)
	for _, count := range []int{4, 1} {
		here := fmt.Sprintf("%s_%d", label, 4*count)
		p.do("SUBS $%d, %s", 4*count, left)
		p.jump("BLT", here+"_end")
		p.label(here)
		step(count)
		p.do("SUBS $%d, %s", 4*count, left)
		p.jump("BGE", here)
		p.label(here + "_end")
		p.do("ADD $%d, %s", 4*count, left)
	}
	if between != nil {
		between()
	}
	p.jump("CBZ "+left+",", label+"_end")
	p.label(label + "_each")
	one()
	p.do("SUBS $1, %s", left)
	p.jump("BNE", label+"_each")
	p.label(label + "_end")
}

// groups emits the loop over a list: units of `many` while there are enough, then of one.
func (r *routine) groups(count string, many int, body func(label string, n int)) {
	r.label("many")
	r.compare(count, fmt.Sprintf("$%d", many))
	r.jump("BLT", "few")
	body("group", many)
	r.do("SUB $%d, %s", many, count)
	r.jump("B", "many")
	r.label("few")
	r.jump("CBZ "+count+",", "done")
	body("single", 1)
	r.do("SUB $1, %s", count)
	r.jump("B", "few")
	r.label("done")
	r.do("RET")
}

// follow sets row to base + stride·(the next of a list of indices).
func (r *routine) follow(row, list, base, stride string) {
	r.do("MOVW.P 4(%s), R26", list)
	r.do("MADD %s, %s, R26, %s", stride, base, row)
}

// total adds up the lanes of four vectors into the lowest lane of the first, in a fixed order.
func (r *routine) total(sums []vec) vec {
	r.add(sums[0], sums[0], sums[1])
	r.add(sums[2], sums[2], sums[3])
	r.add(sums[0], sums[0], sums[2])
	r.addPairwise(sums[0], sums[0], sums[0])
	r.addPairwise(sums[0], sums[0], sums[0])
	return sums[0]
}

// sums returns four zeros for each of n rows.
func (r *routine) sums(n int) [][]vec {
	out := make([][]vec, n)
	for k := range out {
		out[k] = r.group(4)
		for _, v := range out[k] {
			r.zero(v)
		}
	}
	return out
}

// dotRows: dst[k] = Σ q·row, for listed rows (gather) or consecutive ones (scan).
func dotRows(f *file, half, scan bool) {
	p := span{half: half}
	name := "dotGather"
	params := []string{"dst *float32", "q *float32", "base" + pointer(half), "stride int", "idx *int32", "count int",
		"dim int"}
	if scan {
		name = "dotScan"
		params = append(params[:4], params[5:]...)
	}
	p.routine = f.function(name+p.suffix(), "dst[k] = Σ q[d]·row[d]; stride in bytes.", params...)
	dst, q, base, stride := p.load("dst"), p.load("q"), p.load("base"), p.load("stride")
	idx := ""
	if !scan {
		idx = p.load("idx")
	}
	count, dim := p.load("count"), p.load("dim")
	query, left := p.gp(), p.gp()
	rows := p.gps(4)
	p.groups(count, 4, func(label string, n int) {
		rows := rows[:n]
		for _, row := range rows {
			if scan {
				p.do("MOVD %s, %s", base, row)
				p.do("ADD %s, %s", stride, base)
			} else {
				p.follow(row, idx, base, stride)
			}
		}
		p.do("MOVD %s, %s", q, query)
		sums := p.sums(n)
		total := make([]vec, n)
		p.walk(label, dim, left, func(count int) {
			with := p.floats(query, count)
			for k, row := range rows {
				for u, h := range p.read(row, count) {
					p.fma(sums[k][u], h, with[u])
				}
			}
		}, func() {
			for k := range rows {
				total[k] = p.total(sums[k])
			}
		}, func() {
			with := p.vec()
			p.on("FMOVS.P 4("+query+"), F%d", with)
			for k, row := range rows {
				p.on("FMADDS F%d, F%d, F%d, F%d", with, total[k], p.readOne(row), total[k])
			}
		})
		for k := range rows {
			p.on("FMOVS.P F%d, 4("+dst+")", total[k])
		}
	})
}

// addRows: dst += Σ c[k]·row k. Every element of dst sees its additions in the list's order.
func addRows(f *file, half bool) {
	p := span{half: half}
	p.routine = f.function("addGather"+p.suffix(), "dst[d] += Σ c[k]·row k[d]; stride in bytes.", "dst *float32",
		"base"+pointer(half), "stride int", "idx *int32", "c *float32", "count int", "dim int")
	dst, base, stride, idx, c := p.load("dst"), p.load("base"), p.load("stride"), p.load("idx"), p.load("c")
	count, dim := p.load("count"), p.load("dim")
	sum, left := p.gp(), p.gp()
	rows := p.gps(4)
	p.groups(count, 4, func(label string, n int) {
		rows, factors := rows[:n], p.group(n)
		for k, row := range rows {
			p.follow(row, idx, base, stride)
			p.on("VLD1R.P 4("+c+"), [V%d.S4]", factors[k])
		}
		p.do("MOVD %s, %s", dst, sum)
		p.walk(label, dim, left, func(count int) {
			sums := p.peek(sum, count)
			for k, row := range rows {
				for u, h := range p.read(row, count) {
					p.fma(sums[u], h, factors[k])
				}
			}
			p.write(sum, sums)
		}, nil, func() {
			s := p.vec()
			p.on("FMOVS ("+sum+"), F%d", s)
			for k, row := range rows {
				p.on("FMADDS F%d, F%d, F%d, F%d", factors[k], s, p.readOne(row), s)
			}
			p.on("FMOVS.P F%d, 4("+sum+")", s)
		})
	})
}

// dotPairs: dst[k] = Σ w·source·target over ungrouped pairs.
func dotPairs(f *file, half bool) {
	p := span{half: half}
	p.routine = f.function("dotPairs"+p.suffix(), "dst[k] = Σ w[d]·source[d]·target[d]; stride in bytes.",
		"dst *float32", "w *float32", "base"+pointer(half), "stride int", "sources *int32", "targets *int32",
		"count int", "dim int")
	dst, w, base, stride := p.load("dst"), p.load("w"), p.load("base"), p.load("stride")
	sources, targets, count, dim := p.load("sources"), p.load("targets"), p.load("count"), p.load("dim")
	weight, left := p.gp(), p.gp()
	rows := p.gps(4)
	p.groups(count, 2, func(label string, n int) {
		for k := range n {
			p.follow(rows[2*k], sources, base, stride)
			p.follow(rows[2*k+1], targets, base, stride)
		}
		p.do("MOVD %s, %s", w, weight)
		sums := p.sums(n)
		total := make([]vec, n)
		p.walk(label, dim, left, func(count int) {
			with := p.floats(weight, count)
			for k := range n {
				source, target := p.read(rows[2*k], count), p.read(rows[2*k+1], count)
				for u := range source {
					p.mul(source[u], source[u], with[u])
					p.fma(sums[k][u], source[u], target[u])
				}
			}
		}, func() {
			for k := range n {
				total[k] = p.total(sums[k])
			}
		}, func() {
			with := p.vec()
			p.on("FMOVS.P 4("+weight+"), F%d", with)
			for k := range n {
				source, target := p.readOne(rows[2*k]), p.readOne(rows[2*k+1])
				p.on("FMULS F%d, F%d, F%d", source, with, source)
				p.on("FMADDS F%d, F%d, F%d, F%d", source, total[k], target, total[k])
			}
		})
		for k := range n {
			p.on("FMOVS.P F%d, 4("+dst+")", total[k])
		}
	})
}

// addPairs: dst += Σ c[k]·source⊙target over ungrouped pairs, in the list's order.
func addPairs(f *file, half bool) {
	p := span{half: half}
	p.routine = f.function("addPairs"+p.suffix(), "dst[d] += Σ c[k]·source[d]·target[d]; stride in bytes.",
		"dst *float32", "base"+pointer(half), "stride int", "sources *int32", "targets *int32", "c *float32",
		"count int", "dim int")
	dst, base, stride, c := p.load("dst"), p.load("base"), p.load("stride"), p.load("c")
	sources, targets, count, dim := p.load("sources"), p.load("targets"), p.load("count"), p.load("dim")
	sum, left := p.gp(), p.gp()
	rows := p.gps(4)
	p.groups(count, 2, func(label string, n int) {
		factors := p.group(n)
		for k := range n {
			p.follow(rows[2*k], sources, base, stride)
			p.follow(rows[2*k+1], targets, base, stride)
			p.on("VLD1R.P 4("+c+"), [V%d.S4]", factors[k])
		}
		p.do("MOVD %s, %s", dst, sum)
		p.walk(label, dim, left, func(count int) {
			sums := p.peek(sum, count)
			for k := range n {
				source, target := p.read(rows[2*k], count), p.read(rows[2*k+1], count)
				for u := range source {
					p.mul(source[u], source[u], factors[k])
					p.fma(sums[u], source[u], target[u])
				}
			}
			p.write(sum, sums)
		}, nil, func() {
			s := p.vec()
			p.on("FMOVS ("+sum+"), F%d", s)
			for k := range n {
				source, target := p.readOne(rows[2*k]), p.readOne(rows[2*k+1])
				p.on("FMULS F%d, F%d, F%d", source, factors[k], source)
				p.on("FMADDS F%d, F%d, F%d, F%d", source, s, target, s)
			}
			p.on("FMOVS.P F%d, 4("+sum+")", s)
		})
	})
}

// fromHalf: dst = float32(src).
func fromHalf(f *file) {
	p := span{half: true}
	p.routine = f.function("fromHalfNEON", "dst = float32(src); count is a multiple of 4.", "dst *float32",
		"src *uint16", "count int")
	dst, src, count := p.load("dst"), p.load("src"), p.load("count")
	p.label("loop")
	p.jump("CBZ "+count+",", "done")
	p.write(dst, p.read(src, 1))
	p.do("SUB $4, %s", count)
	p.jump("B", "loop")
	p.label("done")
	p.do("RET")
}
