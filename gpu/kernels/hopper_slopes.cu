// The gradient over all pairs on a Hopper card, stripe by stripe of tiles. First their products are made, as for the sums,
// and G of every pair is put aside in bfloat16, as the matrix units take it from registers. Then G is multiplied with the rows.
#include "slopes.cuh"
#include "hopper_tiles.cuh"

// Of a tile of G 2048 pieces of 16 bytes are put aside: by halves of its columns and then of its rows, by 16 columns and by
// thread. A piece has rows lane/4 and lane/4 + 8 of columns 2·(lane % 4) and the next, and of those 8 further.
constexpr u32 kPieces = 2048;

__device__ __forceinline__ u32 pack(float low, float high) {
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

// SlopeWork is the tiles of a stripe, eight columns of tiles at a time, so that the rows of those that are computed at the
// same time are few.
struct SlopeWork {
  typedef SlopeJob Task;
  typedef SlopeCorner Corner;
  static __device__ __forceinline__ bool tileAt(const SlopeJob &job, u64 number, u32 &row, u32 &column) {
    constexpr u32 kAcross = 8;
    const u32 high = job.bottom - job.top, within = u32(number % (high * kAcross));
    row = job.top + within / kAcross;
    column = u32(number / (high * kAcross)) * kAcross + within % kAcross;
    return column <= row;
  }
  struct Adder {
    double sums[kSlopeSums] = {};
    u32 turn = 0; // of sixteen parts of a tile the groups take five or six in turn
    __device__ __forceinline__ void add(const SlopeJob &job, const SlopeCorner &c, u32 aside, u32 group) {
      const u32 lane = threadIdx.x % 32, row = c.first + threadIdx.x % 128 / 32 * 16 + lane / 4, column = c.left + lane % 4 * 2;
      uint4 *out = job.slopes + (u64(c.first / kTile - job.top) * job.bottom + c.left / kTile) * kPieces + threadIdx.x % 128;
      SlopeTotals t;
#pragma unroll 1
      for (u32 part = (group + turn) % kAdding; part < 16; part += kAdding) {
        const u32 half = part / 8, step = part % 8;
        Wide g[2];
#pragma unroll
        for (u32 k = 0; k < 2; k++) {
          u32 i[kWide], j[kWide];
          EACH i[e] = row + half * (kTile / 2) + e / 2 * 8, j[e] = column + step * 16 + k * 8 + e % 2;
          g[k] = slopesOf(job, c, takeBack(aside + (half * 16 + step * 2 + k) * 2048), i, j, t);
        }
        out[((step / 4 * 2 + half) * 4 + step % 4) * 128] =
            make_uint4(pack(g[0][0], g[0][1]), pack(g[0][2], g[0][3]), pack(g[1][0], g[1][1]), pack(g[1][2], g[1][3]));
      }
      turn = (turn + 1) % kAdding;
      for (int step = 16; step > 0; step /= 2) {
        t.there += __shfl_xor_sync(0xffffffff, t.there, step);
        t.back += __shfl_xor_sync(0xffffffff, t.back, step);
      }
      if (lane == 0)
        addCells(job.cells + u64(blockIdx.x * 4 * kAdding + threadIdx.x / 32 - 8) * job.fields * job.fields, c, t.there, t.back);
      sums[0] += t.nll;
      sums[1] += t.dz;
      sums[2] += t.pairs;
    }
    __device__ __forceinline__ void keep(const SlopeJob &job, u64 thread) {
      for (int k = 0; k < kSlopeSums; k++) job.sums[thread * kSlopeSums + k] += sums[k];
    }
  };
};

extern "C" __global__ void __launch_bounds__(kThreads, 1)
slopePairs(SlopeJob job, const __grid_constant__ TensorMap queries, const __grid_constant__ TensorMap rows) {
  addTiles<false, SlopeWork>(job, &queries, &rows);
}

// Products of G with the rows, turned: tiles of 128 nodes by 256 numbers over at most kSegment columns of tiles, after which
// sums in float32 are multiplied with the nodes' own rows and go on in float64.
constexpr u32 kSegment = 128, kNumbers = 256;
constexpr int kDeep = 4, kTurnedBytes = kNumbers * kDepth * 2, kSlopeBytes = kTile * kDepth * 2, kDeepBytes = kTurnedBytes + kSlopeBytes;
constexpr int kMultiplying = 128 * 3;

__device__ __forceinline__ void multiplySlopes(float (&acc)[128], const uint4 &a, u64 b, int keep) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %133, 0;\nwgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 " LIST128
               ", {%128, %129, %130, %131}, %132, p, 1, 1, 0;\n}"
               : REG64(acc), REG8(acc, 64), REG8(acc, 72), REG8(acc, 80), REG8(acc, 88), REG8(acc, 96), REG8(acc, 104), REG8(acc, 112), REG8(acc, 120)
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
    to = min(from + kSegment, row + 1);
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

extern "C" __global__ void __launch_bounds__(kMultiplying, 1)
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
        fetch(to, &turned, bar, k * kDepth, part.number);
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
