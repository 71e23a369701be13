// The gradient over all pairs on a Hopper card, stripe by stripe of tiles. First their products are made, as for the sums,
// and G of every pair is put aside in bfloat16, as the matrix units take it from registers. Then G is multiplied with the rows.
#include "slopes.cuh"
#include "hopper_wide.cuh"

// Of a tile of G of 128 × 128, 2048 pieces of 16 bytes are put aside: by halves of its columns and then of its rows, by 16
// columns and by thread. A piece has rows lane/4 and lane/4 + 8 of columns 2·(lane % 4) and the next, and of those 8 further.
constexpr u32 kPieces = 2048;

__device__ __forceinline__ u32 pack(float low, float high) {
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
__device__ __forceinline__ uint4 piece(const Wide &a, const Wide &b) {
  return make_uint4(pack(a[0], a[1]), pack(a[2], a[3]), pack(b[0], b[1]), pack(b[2], b[3]));
}

// ownRow is the first row of a thread in a tile; the other is 8 further.
__device__ __forceinline__ u32 ownRow(const SlopeCorner &c) {
  return c.first + (threadIdx.x / 128 - 1) * (kTile / 2) + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
}

// halve adds up what two lanes have: each keeps the half of the numbers that its bit says, of both lanes.
template <int kCount> __device__ __forceinline__ void halve(float *v, bool upper, int step) {
#pragma unroll
  for (int k = 0; k < kCount / 2; k++) {
    const float given = upper ? v[k] : v[k + kCount / 2], kept = upper ? v[k + kCount / 2] : v[k];
    v[k] = kept + __shfl_xor_sync(0xffffffff, given, step);
  }
}

// DenseRows are the two rows of a thread: their terms there and back, and the sums of their slopes in s as source and target.
struct DenseRows {
  u32 first;
  float there[2], back[2], sums[2][2] = {};
  __device__ __forceinline__ DenseRows(const SlopeJob &job, const SlopeCorner &c) {
    first = ownRow(c);
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const float2 own = job.terms[first + k * 8];
      there[k] = own.x + c.pi.x, back[k] = own.y + c.pi.z;
    }
  }
  // keep puts the sums aside, of the four lanes that have the same rows.
  __device__ __forceinline__ void keep(float *sides, SlopeTotals &t) {
    t.there = sums[0][0] + sums[1][0], t.back = sums[0][1] + sums[1][1];
    const u32 lane = threadIdx.x % 32;
    float v[4] = {sums[0][0], sums[0][1], sums[1][0], sums[1][1]};
    halve<4>(v, lane & 2, 2);
    halve<2>(v, lane & 1, 1);
    sides[(first % kTile + lane % 4 / 2 * 8) * 2 + lane % 2] = v[0];
  }
  // keepColumns puts the sums of 16 columns aside, of the eight lanes that have the same ones.
  __device__ __forceinline__ void keepColumns(float *sides, u32 step, float (&columns)[8]) {
    const u32 lane = threadIdx.x % 32;
    halve<8>(columns, lane & 16, 16);
    halve<4>(columns, lane & 8, 8);
    halve<2>(columns, lane & 4, 4);
    const u32 column = step * 16 + lane / 16 * 8 + lane % 4 * 2 + lane / 8 % 2;
    sides[((threadIdx.x / 32 - 3) * kTile + column) * 2 + lane / 4 % 2] = columns[0];
  }
};

// SlopeAdder adds up the tiles of a thread of the groups that multiply, and puts their slopes aside. Those of pairs that all
// are pairs stay in registers; of others 32 products of a thread at a time go through shared memory, as their code is too long
// to be written out. Where π has terms beyond those of fields, so do all.
template <bool kDense> struct SlopeAdder {
  double sums[kSlopeSums] = {};
  double there = 0, back = 0; // of the tiles since the fields of held
  SlopeCorner held;
  bool holds = false;
  u32 row, column;
  uint4 *pieces;
  __device__ __forceinline__ void begin(const SlopeJob &job, u32 row_, u32 column_) {
    row = row_, column = column_;
    pieces = job.slopes + (u64(row - job.top) * job.bottom + column) * kPieces + (threadIdx.x / 128 - 1) * 512 + threadIdx.x % 128;
  }
  __device__ __forceinline__ void add(const SlopeJob &job, const float (&acc)[128], u32 aside) {
    addTile<0>(job, acc, aside);
    if (column < row) addTile<1>(job, acc, aside);
  }
  // addTile adds one of the two columns of tiles.
  template <int kColumn> __device__ __forceinline__ void addTile(const SlopeJob &job, const float (&acc)[128], u32 aside) {
    SlopeCorner c;
    c.find<kTile, kTile>(job, row * kTile, (column + kColumn) * kTile);
    if (holds && c.there != held.there) flush(job);
    held = c;
    holds = true;
    SlopeTotals t;
    uint4 *out = pieces + kColumn * kPieces;
    const float shift = -kLog2e * job.offset;
    constexpr int kFrom = kColumn * 64;
    if constexpr (kDense) {
      DenseRows own(job, c);
      float *sides = sidesOf<kTile>(job, row, column + kColumn);
      addDense<kFrom>(job, c, own, acc, aside, out, sides, t);
      addDense<kFrom + 32>(job, c, own, acc, aside, out, sides, t);
      own.keep(sides, t);
    } else if (c.whole && c.kind == 0) {
      addWhole<true, kFrom, 8>(c, acc, shift, out, t);
    } else if (c.whole && c.kind == 1) {
      addWhole<false, kFrom, 8>(c, acc, shift, out, t);
    } else {
      addAny<kFrom>(job, c, acc, aside, out, t);
      addAny<kFrom + 32>(job, c, acc, aside, out, t);
    }
    if (!kDense) t.finish(c);
    there += t.there;
    back += t.back;
    sums[0] += t.nll;
    sums[1] += t.dz;
    sums[2] += t.pairs;
    sums[3] -= double(kLn2) * t.byLink;
  }
  // flush adds what was held to the cells of a warp.
  __device__ __forceinline__ void flush(const SlopeJob &job) {
    for (int step = 16; step > 0; step /= 2) {
      there += __shfl_xor_sync(0xffffffff, there, step);
      back += __shfl_xor_sync(0xffffffff, back, step);
    }
    if (holds && threadIdx.x % 32 == 0)
      addCells<kDense>(job.cells + u64(blockIdx.x * 8 + threadIdx.x / 32 - 4) * job.fields * job.fields, held, there, back);
    there = back = 0;
  }
  template <int kFrom> static __device__ __forceinline__ Wide four(const float (&acc)[128]) {
    Wide v;
    EACH v[e] = acc[kFrom + e];
    return v;
  }
  // addWhole adds eight products after eight, from a place on.
  template <bool kRarely, int kFrom, int kSteps>
  static __device__ __forceinline__ void addWhole(const SlopeCorner &c, const float (&acc)[128], float shift, uint4 *out, SlopeTotals &t) {
    if constexpr (kSteps > 0) {
      const Wide a = kRarely ? slopesRare(c, four<kFrom>(acc), shift, t) : slopesWhole(c, four<kFrom>(acc), shift, t);
      const Wide b = kRarely ? slopesRare(c, four<kFrom + 4>(acc), shift, t) : slopesWhole(c, four<kFrom + 4>(acc), shift, t);
      constexpr int kStep = kFrom % 64 / 8;
      out[(kStep / 4 * 8 + kStep % 4) * 128] = piece(a, b);
      addWhole<kRarely, kFrom + 8, kSteps - 1>(c, acc, shift, out, t);
    }
  }
  // putAside puts 32 products, from a place on, into shared memory, and returns where.
  template <int kFrom> static __device__ __forceinline__ u32 putAside(const float (&acc)[128], u32 aside) {
    const u32 mine = aside + (threadIdx.x - 128) * 16;
#pragma unroll
    for (u32 g = 0; g < 8; g++)
      asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(mine + g * 4096), "f"(acc[kFrom + g * 4]), "f"(acc[kFrom + g * 4 + 1]), "f"(acc[kFrom + g * 4 + 2]), "f"(acc[kFrom + g * 4 + 3]) : "memory");
    return mine;
  }
  static __device__ __forceinline__ Wide takeBack(u32 from) {
    Wide z;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(z[0]), "=f"(z[1]), "=f"(z[2]), "=f"(z[3]) : "r"(from) : "memory");
    return z;
  }
  // addDense adds 32 products, from a place on, that may be pairs, where π has terms.
  template <int kFrom>
  static __device__ __forceinline__ void addDense(const SlopeJob &job, const SlopeCorner &c, DenseRows &own, const float (&acc)[128], u32 aside,
                                                  uint4 *out, float *sides, SlopeTotals &t) {
    const u32 mine = putAside<kFrom>(acc, aside), across = c.left + threadIdx.x % 4 * 2;
#pragma unroll 1
    for (u32 k = 0; k < 4; k++) {
      const u32 step = kFrom % 64 / 8 + k;
      Wide g[2];
      float columns[8]; // by 8 columns further, by odd ones, and by end
#pragma unroll
      for (u32 h = 0; h < 2; h++) {
        const u32 right = across + step * 16 + h * 8;
        const float4 both = __ldg(reinterpret_cast<const float4 *>(job.terms + right));
        u32 i[kWide], j[kWide];
        Wide there, back;
        EACH {
          i[e] = own.first + e / 2 * 8, j[e] = right + e % 2;
          there[e] = own.there[e / 2] + (e % 2 ? both.w : both.y);
          back[e] = own.back[e / 2] + (e % 2 ? both.z : both.x);
        }
        Sides d;
        g[h] = slopesDense(job, c, takeBack(mine + (k * 2 + h) * 4096), there, back, i, j, d, t);
        EACH own.sums[e / 2][0] += d.there[e], own.sums[e / 2][1] += d.back[e];
#pragma unroll
        for (int odd = 0; odd < 2; odd++) {
          columns[h * 4 + odd * 2] = d.back[odd] + d.back[odd + 2];
          columns[h * 4 + odd * 2 + 1] = d.there[odd] + d.there[odd + 2];
        }
      }
      out[(step / 4 * 8 + step % 4) * 128] = piece(g[0], g[1]);
      own.keepColumns(sides, step, columns);
    }
  }
  // addAny adds 32 products, from a place on, that may be pairs.
  template <int kFrom>
  static __device__ __forceinline__ void addAny(const SlopeJob &job, const SlopeCorner &c, const float (&acc)[128], u32 aside, uint4 *out, SlopeTotals &t) {
    const u32 mine = putAside<kFrom>(acc, aside), across = c.left + threadIdx.x % 4 * 2, down = ownRow(c);
#pragma unroll 1
    for (u32 k = 0; k < 4; k++) {
      const u32 step = kFrom % 64 / 8 + k;
      Wide g[2];
#pragma unroll
      for (u32 h = 0; h < 2; h++) {
        u32 i[kWide], j[kWide];
        EACH i[e] = down + e / 2 * 8, j[e] = across + step * 16 + h * 8 + e % 2;
        Wide z = takeBack(mine + (k * 2 + h) * 4096);
        EACH z[e] += job.offset;
        g[h] = slopesAny(job, c, z, i, j, t);
      }
      out[(step / 4 * 8 + step % 4) * 128] = piece(g[0], g[1]);
    }
  }
  __device__ __forceinline__ void keep(const SlopeJob &job) {
    flush(job);
    const u64 thread = u64(blockIdx.x) * 256 + threadIdx.x - 128;
    for (int k = 0; k < kSlopeSums; k++) job.sums[thread * kSlopeSums + k] += sums[k];
  }
};

// SlopeWork is the tiles of a stripe, eight columns of tiles at a time, so that the rows of those that are computed at the
// same time are few.
template <bool kDense> struct SlopeWork {
  typedef SlopeJob Task;
  typedef SlopeAdder<kDense> Adder;
  static __device__ __forceinline__ bool tileAt(const SlopeJob &job, u64 number, u32 &row, u32 &column) {
    constexpr u32 kAcross = 4; // twice
    const u32 high = job.bottom - job.top, within = u32(number % (high * kAcross));
    row = job.top + within / kAcross;
    column = (u32(number / (high * kAcross)) * kAcross + within % kAcross) * 2;
    return column <= row && column < job.across; // those of two are looked at together: there are even numbers of both
  }
};

extern "C" __global__ void __launch_bounds__(kThreads, 1)
slopePairs(SlopeJob job, const __grid_constant__ TensorMap queries, const __grid_constant__ TensorMap rows) {
  wideTiles<SlopeWork<false>>(job, &queries, &rows);
}
extern "C" __global__ void __launch_bounds__(kThreads, 1)
slopeDensePairs(SlopeJob job, const __grid_constant__ TensorMap queries, const __grid_constant__ TensorMap rows) {
  wideTiles<SlopeWork<true>>(job, &queries, &rows);
}

// Products of G with the rows, turned: tiles of 128 nodes by 256 numbers over at most kSegment columns of tiles, after which
// sums in float32 are multiplied with the nodes' own rows and go on in float64.
constexpr u32 kSegment = 128, kNumbers = 256;
constexpr int kDeep = 4, kTurnedBytes = kNumbers * kDepth * 2, kSlopeBytes = kTile * kDepth * 2, kDeepBytes = kTurnedBytes + kSlopeBytes;

__device__ __forceinline__ void multiplySlopes(float (&acc)[128], const uint4 &a, u64 b, int keep) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %133, 0;\nwgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 " LIST128
               ", {%128, %129, %130, %131}, %132, p, 1, 1, 0;\n}"
               : REG128(acc)
               : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(keep));
}
__device__ __forceinline__ uint4 takeSlopes(u32 from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(from) : "memory");
  return v;
}
__device__ __forceinline__ void fetchSlopes(u32 to, const uint4 *from, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "n"(kSlopeBytes), "r"(bar) : "memory");
}

// A part of the products: a row of tiles, its columns of tiles, and numbers of the rows.
struct Part {
  u32 row, from, to, number;
  __device__ __forceinline__ Part(const SlopeJob &job, u64 at) {
    const u32 wide = (job.dim + kNumbers - 1) / kNumbers, each = (job.bottom - job.top) * wide, within = u32(at % each);
    row = job.top + within / wide;
    number = within % wide * kNumbers;
    from = u32(at / each) * kSegment;
    to = min(from + kSegment, min(row + 1, job.across));
  }
};

// addOwn multiplies sums with the nodes' own rows and adds them up over the nodes of a warp.
__device__ __forceinline__ void addOwn(const SlopeJob &job, const unsigned short *rows, const float (&acc)[128], u32 row, u32 number, double *weights) {
  const u32 lane = threadIdx.x % 32;
  const unsigned short *own = rows + u64(row + lane / 4) * job.dim + number + lane % 4 * 2;
#pragma unroll
  for (u32 g = 0; g < 32; g++) {
    if (number + g * 8 >= job.dim) break;
    const u32 a = *reinterpret_cast<const u32 *>(own + g * 8), b = *reinterpret_cast<const u32 *>(own + u64(8) * job.dim + g * 8);
    float low = fmaf(acc[g * 4], __uint_as_float(a << 16), acc[g * 4 + 2] * __uint_as_float(b << 16));
    float high = fmaf(acc[g * 4 + 1], __uint_as_float(a & 0xffff0000u), acc[g * 4 + 3] * __uint_as_float(b & 0xffff0000u));
    for (int step = 16; step > 2; step /= 2) {
      low += __shfl_xor_sync(0xffffffff, low, step);
      high += __shfl_xor_sync(0xffffffff, high, step);
    }
    if (lane < 4) {
      weights[number + g * 8 + lane * 2] += low;
      weights[number + g * 8 + lane * 2 + 1] += high;
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
addSlopes(SlopeJob job, const __grid_constant__ TensorMap turned, const unsigned short *rows) {
  extern __shared__ unsigned char stages[];
  __shared__ alignas(8) u64 full[kDeep], empty[kDeep];
  const u32 base = (shared(stages) + 1023) & ~1023u, group = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int k = 0; k < kDeep; k++) barrierInit(shared(&full[k]), 1), barrierInit(shared(&empty[k]), 2);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  Ring<kDeep> stage;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x > 0) return;
    for (u64 at = job.from + blockIdx.x; at < job.to; at += gridDim.x) {
      const Part part(job, at);
      for (u32 k = 2 * part.from; k < 2 * part.to; k++, stage.next()) {
        barrierWait(shared(&empty[stage.at]), stage.phase ^ 1);
        const u32 bar = shared(&full[stage.at]), to = base + stage.at * kDeepBytes;
        barrierExpect(bar, kDeepBytes);
        fetch(to, &turned, bar, 0, k * job.dim + part.number);
        fetchSlopes(to + kTurnedBytes, job.slopes + (u64(part.row - job.top) * job.bottom * 2 + k) * (kPieces / 2), bar);
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  const u32 warp = threadIdx.x / 32 - 4;
  double *weights = job.weights + u64(blockIdx.x * 8 + warp) * job.dim;
  for (u64 at = job.from + blockIdx.x; at < job.to; at += gridDim.x) {
    const Part part(job, at);
    if (part.from >= part.to) continue;
    float acc[128];
    u32 last = kDeep;
    for (u32 tile = part.from; tile < part.to; tile++) {
      uint4 a[2][4];
#pragma unroll
      for (int half = 0; half < 2; half++, stage.next()) {
        barrierWait(shared(&full[stage.at]), stage.phase);
        const u32 to = base + stage.at * kDeepBytes, slopes = to + kTurnedBytes + (group - 1) * (kSlopeBytes / 2) + threadIdx.x % 128 * 16;
        const u64 right = descriptor(to);
#pragma unroll
        for (int d = 0; d < 4; d++) a[half][d] = takeSlopes(slopes + d * 2048);
        productFence();
#pragma unroll
        for (int d = 0; d < 4; d++) multiplySlopes(acc, a[half][d], right + 2 * d, tile > part.from || half > 0 || d > 0);
        productCommit();
        productWait<1>();
        if (last < kDeep && threadIdx.x % 128 == 0) barrierArrive(shared(&empty[last]));
        last = stage.at;
      }
    }
    productWait<0>();
    if (threadIdx.x % 128 == 0) barrierArrive(shared(&empty[last]));
    addOwn(job, rows, acc, part.row * kTile + warp * 16, part.number, weights);
  }
}
