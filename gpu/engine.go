package gpu

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"math"
	"sync"
	"unsafe"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
)

// RowFormat is how rows are kept on a card.
type RowFormat string

// The formats. What a row loses is what its numbers lose by being rounded: sums are in float32 or wider.
const (
	Float32  RowFormat = "float32"
	Float16  RowFormat = "float16"
	BFloat16 RowFormat = "bfloat16"
)

func (f RowFormat) bytes() int {
	if f == Float32 {
		return 4
	}
	return 2
}

// OnCard is an engine on a graphics card: sums over all pairs are made there, and all else by the processor.
type OnCard struct {
	engine.CPU
	device   *Device
	format   RowFormat
	mu       sync.Mutex  // of searches, which take turns
	held     []*cardRows // of what was searched
	rooms    [2]hostRoom
	learns   *slopeRows // of what is learned from
	memory   uint64     // that rows may take; 0 means the card's
	fewPairs int        // of tests, instead of the constant
}

var (
	_ engine.Engine      = (*OnCard)(nil)
	_ engine.FieldSummer = (*OnCard)(nil)
)

// Settings of an engine.
type Settings struct {
	Threads int       // of the processor; 0 means all
	Format  RowFormat // default float32
	// Memory is how many bytes of the card sums over all pairs and lists may take, where others use it too; 0 means as
	// many as it has. With less they take blocks of nodes one after the other.
	Memory uint64
}

// New makes an engine on a card, which has to stay open.
func New(d *Device, s Settings) (*OnCard, error) {
	s.Format = cmp.Or(s.Format, Float32)
	switch s.Format {
	case Float32, Float16, BFloat16:
	default:
		return nil, fmt.Errorf("%w: rows of %q; use %s, %s or %s", engine.ErrUnsupported, s.Format, Float32, Float16,
			BFloat16)
	}
	return &OnCard{CPU: engine.CPU{Threads: s.Threads}, device: d, format: s.Format,
		memory: s.Memory}, nil
}

// AllPairs implements engine.Engine. There is no limit to the pairs, nor to the rows: see SumRectangle.
func (e *OnCard) AllPairs(ctx context.Context, g *graph.Graph, p engine.Predictor, u graph.Universe,
	floor float64) (engine.Means, error) {
	return e.CPU.AllPairsBy(ctx, e, g, p, u, floor)
}

// AllPairsByField implements engine.FieldSummer. There is no limit to the pairs.
func (e *OnCard) AllPairsByField(ctx context.Context, g *graph.Graph, p engine.Predictor, u graph.Universe,
	floor float64) ([]engine.FieldMeans, error) {
	return e.CPU.AllPairsByFieldBy(ctx, e, g, p, u, floor)
}

// leastCapability is the oldest generation of cards that the kernels are made for.
const leastCapability = 80

// Kernels are made by gpu/make-kernels.
var (
	//go:embed kernels/plain.ptx.gz
	plainImage []byte
	//go:embed kernels/hopper.cubin.gz
	hopperImage []byte
	//go:embed kernels/hopper_powers.cubin.gz
	powersImage []byte
)

// kernel is one that sums pairs.
type kernel struct {
	kernelName
	tiling
	depth                    int // what rows are padded to a multiple of
	blocks, threads, summing int // blocks; threads of each, and of these how many have sums
	shared                   int
	perLaunch                uint64 // tiles × numbers of a row, so that a launch takes less than a second
	mapped                   bool   // takes maps of the rows, for the copy engine
	shares                   int    // blocks that work on a tile together, each on a part of its rows; 0: one
}

// padded is to how many numbers a row is filled up.
func (k *kernel) padded(dim int) int { return (dim + k.depth - 1) / k.depth * k.depth }

// kernelFor chooses a kernel and loads it.
func (e *OnCard) kernelFor(p *plan) (*kernel, error) {
	k := &kernel{kernelName: kernelName{"plain", "sumPairs_" + string(e.format)}, tiling: tiling{512, 64, 64},
		depth: 16, blocks: 4 * e.device.processors, threads: 256, summing: 256, perLaunch: 1 << 30}
	packed, names := plainImage, []string{"sumPairs_float32", "sumPairs_float16", "sumPairs_bfloat16"}
	if e.device.Capability == hopper && e.format != Float32 {
		*k = kernel{kernelName: kernelName{"hopper", k.name}, tiling: tiling{1024, 128, 128}, depth: 64,
			blocks: e.device.processors, threads: 640, summing: 384, shared: 3*2*128*64*2 + 2*128*128*4 + 1024,
			perLaunch: 1 << 32, mapped: true}
		if p.dense != 0 {
			k.name = "sumDense_" + string(e.format)
		}
		packed, names = hopperImage, []string{"sumPairs_float16", "sumPairs_bfloat16", "sumDense_float16",
			"sumDense_bfloat16"}
	}
	return k, e.device.load(k.image, packed, names...)
}

// powersFor is the kernel for pairs that are unlikely to be linked, if there is one, and loads it.
func (e *OnCard) powersFor(p *plan) (*kernel, error) {
	if e.device.Capability != hopper || e.format != BFloat16 || p.dense != 0 || p.both == 0 {
		return nil, nil
	}
	const shares, rows, columns, depth, summing = 2, 128, 192, 64, 256 // see kernels/hopper_powers.cu
	k := kernel{kernelName: kernelName{image: "powers"}, tiling: tiling{3072, shares * rows, columns}, depth: depth,
		blocks: e.device.processors / shares * shares, threads: 384, summing: summing, shares: shares,
		shared: 5*(rows+columns)*depth*2 + summing*16 + 1024, perLaunch: 1 << 31, mapped: true}
	slices := 1 // into how many the work on a tile is cut: there are as many steps of its products, or more
	for _, n := range []int{4, 12} {
		if k.padded(p.rows.Dim()) >= n*k.depth {
			slices = n
		}
	}
	k.name = fmt.Sprintf("sumPowers%d_bfloat16", slices)
	return &k, e.device.load(k.image, powersImage, "sumPowers1_bfloat16", "sumPowers4_bfloat16", "sumPowers12_bfloat16")
}

// tensorMap tells the copy engine where rows are.
type tensorMap struct {
	opaque [16]uint64
	_      [8]uint64 // so that there is an address in it that is a multiple of 64
}

// arguments are what a kernel is launched with.
func (k *kernel) arguments(e *OnCard, p *plan, a, b *array) ([]unsafe.Pointer, error) {
	if !k.mapped {
		return []unsafe.Pointer{unsafe.Pointer(&p.job), unsafe.Pointer(&a.address), unsafe.Pointer(&b.address)}, nil
	}
	parts := uint64(max(k.shares, 1))
	left, err1 := e.device.mapRows(e.format, a, [4]uint32{p.m, p.dim, uint32(k.rows / parts), uint32(k.depth)})
	right, err2 := e.device.mapRows(e.format, b, [4]uint32{p.n, p.dim, uint32(k.columns / parts), uint32(k.depth)})
	return []unsafe.Pointer{unsafe.Pointer(&p.job), left, right}, cmp.Or(err1, err2)
}

// Numbers of the driver's interface.
const (
	kindFloat16, kindBFloat16 = 6, 9
)

// mapRows describes rows to the copy engine: how many, of how many numbers, to be fetched in boxes of rows × numbers.
func (d *Device) mapRows(format RowFormat, a *array, shape [4]uint32) (unsafe.Pointer, error) {
	room := new(tensorMap)
	at := unsafe.Pointer(room)
	if off := uintptr(at) % 64; off != 0 {
		at = unsafe.Add(at, 64-off)
	}
	kind := uint32(kindBFloat16)
	if format == Float16 {
		kind = kindFloat16
	}
	return at, d.check("cuTensorMapEncodeTiled", d.driver.encode(mapping{at, kind, a.address, shape[0], shape[1],
		shape[2], shape[3]}))
}

// upload copies the rows of some sources, as queries, or of some targets to the card.
func (e *OnCard) upload(to *array, p *plan, nodes []int32, sources bool) error {
	dim, matrix := p.rows.Dim(), kern.MatrixOf(p.rows)
	if !sources {
		return e.uploadRows(to, int(p.dim), nodes, func() func([]float32, int32) {
			return func(row []float32, j int32) { matrix.Load(row[:dim], int(j)) }
		})
	}
	return e.uploadRows(to, int(p.dim), nodes, func() func([]float32, int32) {
		offsets := make([]float32, p.fields)
		return func(row []float32, i int32) { p.inner.Query(row[:dim], offsets, p.params, i) }
	})
}

// uploadRows copies rows of a width to the card, in the engine's format. Each goroutine has a function that loads the
// row of a node; a node below 0 has a row of zeros.
func (e *OnCard) uploadRows(to *array, width int, nodes []int32, loader func() func(row []float32, i int32)) error {
	const together = 1 << 14
	wide := make([]float32, min(together, len(nodes))*width)
	narrow := make([]uint16, len(wide))
	for first := 0; first < len(nodes); first += together {
		some := nodes[first:min(first+together, len(nodes))]
		kern.Chunks(len(some), 64, kern.Threads(e.Threads), func(_, _, from, until int) {
			load := loader()
			for k := from; k < until; k++ {
				row := wide[k*width:][:width]
				if some[k] < 0 {
					clear(row)
				} else {
					load(row, some[k])
				}
				switch e.format {
				case BFloat16:
					for d, x := range row {
						narrow[k*width+d] = toBFloat16(x)
					}
				case Float16:
					kern.ToHalf(narrow[k*width:][:width], row)
				}
			}
		})
		var err error
		if at := uint64(first) * uint64(width) * uint64(e.format.bytes()); e.format == Float32 {
			err = put(to, at, wide[:len(some)*width])
		} else {
			err = put(to, at, narrow[:len(some)*width])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// toBFloat16 rounds to the nearest, of two the even one.
func toBFloat16(x float32) uint16 {
	bits := math.Float32bits(x)
	if x != x {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
