// The gradient over all pairs on any card; and what prepares rows for it.
#include "slopes.cuh"
#include "multiply.cuh"

// addRows adds Σ G a_k b_k over a tile to the weights, given G in shared memory.
template <typename T>
__device__ __forceinline__ void addRows(const SlopeJob &job, const SlopeCorner &c, const T *rows, float (&slopes)[kTile][kTile + 1]) {
  __shared__ Turned up, side;
  __shared__ float sums[16][17];
  const int k = threadIdx.x % 16, few = threadIdx.x / 16; // a place of w; four rows
  double *weights = job.weights + u64(blockIdx.x) * job.dim;
  for (u32 from = 0; from < job.dim; from += kDepth) {
    for (int e = threadIdx.x; e < kTile * kDepth; e += kThreads) {
      const u32 row = e / kDepth, at = e % kDepth;
      up[at][row] = widen(rows[u64(c.first + row) * job.dim + from + at]);
      side[at][row] = widen(rows[u64(c.left + row) * job.dim + from + at]);
    }
    __syncthreads();
    float sum = 0;
    for (int r = few * 4; r < few * 4 + 4; r++) {
      float along = 0;
      for (u32 j = 0; j < kTile; j++) along = fmaf(slopes[r][j], side[k][j], along);
      sum = fmaf(up[k][r], along, sum);
    }
    sums[few][k] = sum;
    __syncthreads();
    if (threadIdx.x < kDepth) {
      float total = 0;
      for (int r = 0; r < 16; r++) total += sums[r][threadIdx.x];
      weights[from + threadIdx.x] += total;
    }
  }
  __syncthreads();
}

// addRow puts the sums of a row's slopes in s aside, given those of a thread; addColumns does so by columns.
__device__ __forceinline__ void addRow(float *sides, u32 row, float2 sum) {
  for (int step = 8; step > 0; step /= 2) {
    sum.x += __shfl_xor_sync(0xffffffff, sum.x, step);
    sum.y += __shfl_xor_sync(0xffffffff, sum.y, step);
  }
  if (threadIdx.x % 16 == 0) reinterpret_cast<float2 *>(sides)[row] = sum;
}
__device__ __forceinline__ void addColumns(float *sides, u32 column, Sides &sums) {
  EACH {
    sums.there[e] += __shfl_xor_sync(0xffffffff, sums.there[e], 16);
    sums.back[e] += __shfl_xor_sync(0xffffffff, sums.back[e], 16);
    if (threadIdx.x % 32 < 16)
      reinterpret_cast<float2 *>(sides)[(1 + threadIdx.x / 32) * kTile + column + e] = make_float2(sums.back[e], sums.there[e]);
  }
}

// Tiles of a stripe are numbered column by column.
template <typename T, bool kDense>
__device__ __forceinline__ void sumSlopes(const SlopeJob &job, const T *queries, const T *rows) {
  __shared__ float slopes[kTile][kTile + 1];
  __shared__ float parts[kThreads / 32][2];
  const u32 thread = blockIdx.x * kThreads + threadIdx.x, above = threadIdx.x / 16 * 4, before = threadIdx.x % 16 * 4;
  double sums[kSlopeSums] = {};
  for (u64 number = job.from + blockIdx.x; number < job.to; number += gridDim.x) {
    const u32 high = job.bottom - job.top, row = job.top + u32(number % high), column = u32(number / high);
    if (column > row || column >= job.across) continue;
    SlopeCorner c;
    c.find<kTile, kTile>(job, row * kTile, column * kTile);
    float product[4][4];
    multiply(queries, rows, c.first, c.left, job.n, job.n, job.dim, product);
    SlopeTotals t;
    float *sides = kDense ? sidesOf<kTile>(job, row, column) : nullptr;
    Sides across = {};
#pragma unroll 1
    for (int r = 0; r < 4; r++) {
      Wide z, g;
      u32 i[kWide], j[kWide];
      EACH z[e] = product[r][e], i[e] = c.first + above + r, j[e] = c.left + before + e;
      if constexpr (kDense) {
        Wide there, back;
        EACH {
          const float2 a = job.terms[i[e]], b = job.terms[j[e]];
          there[e] = a.x + b.y + c.pi.x;
          back[e] = a.y + b.x + c.pi.z;
        }
        Sides d;
        g = slopesDense(job, c, z, there, back, i, j, d, t);
        float2 down = make_float2(0, 0);
        EACH down.x += d.there[e], down.y += d.back[e];
        EACH across.there[e] += d.there[e], across.back[e] += d.back[e];
        t.there += down.x, t.back += down.y;
        addRow(sides, above + r, down);
      } else {
        g = slopesOf(job, c, z, i, j, t);
      }
      EACH slopes[above + r][before + e] = g[e];
    }
    if constexpr (kDense) addColumns(sides, before, across);
    else t.finish(c);
    for (int step = 16; step > 0; step /= 2) {
      t.there += __shfl_xor_sync(0xffffffff, t.there, step);
      t.back += __shfl_xor_sync(0xffffffff, t.back, step);
    }
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32][0] = t.there, parts[threadIdx.x / 32][1] = t.back;
    __syncthreads();
    if (threadIdx.x == 0) {
      float there = 0, back = 0;
      for (int w = 0; w < kThreads / 32; w++) there += parts[w][0], back += parts[w][1];
      addCells<kDense>(job.cells + u64(blockIdx.x) * job.fields * job.fields, c, there, back);
    }
    addRows(job, c, rows, slopes);
    sums[0] += t.nll;
    sums[1] += t.dz;
    sums[2] += t.pairs;
    sums[3] -= double(kLn2) * t.byLink;
  }
  for (int k = 0; k < kSlopeSums; k++) job.sums[u64(thread) * kSlopeSums + k] += sums[k];
}

// narrow rounds to what rows are stored in.
__device__ __forceinline__ void narrow(float x, float &y) { y = x; }
__device__ __forceinline__ void narrow(float x, unsigned short &y) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x)); }
__device__ __forceinline__ void narrow(float x, Half &y) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); }

// scaleRows sets queries: rows times w, number by number.
template <typename T>
__device__ __forceinline__ void scaleRows(const T *rows, const float *w, T *queries, u64 count, u32 dim) {
  for (u64 at = u64(blockIdx.x) * kThreads + threadIdx.x; at < count; at += u64(gridDim.x) * kThreads)
    narrow(widen(rows[at]) * w[at % dim], queries[at]);
}

#define KERNELS(name, T)                                                                                               \
  extern "C" __global__ void __launch_bounds__(kThreads) sumSlopes_##name(SlopeJob job, const T *queries, const T *rows) { sumSlopes<T, false>(job, queries, rows); } \
  extern "C" __global__ void __launch_bounds__(kThreads) sumDenseSlopes_##name(SlopeJob job, const T *queries, const T *rows) { sumSlopes<T, true>(job, queries, rows); } \
  extern "C" __global__ void __launch_bounds__(kThreads) scaleRows_##name(const T *rows, const float *w, T *queries, u64 count, u32 dim) { scaleRows(rows, w, queries, count, dim); }
KERNELS(float32, float)
KERNELS(float16, Half)
KERNELS(bfloat16, unsigned short)

// turnRows sets columns to rows of 16 bits, in blocks of 64 rows: number k of row i becomes number i % 64 of row k of block i / 64.
// So what is multiplied at once lies together.
extern "C" __global__ void __launch_bounds__(kThreads)
turnRows(const unsigned short *rows, unsigned short *columns, u32 count, u32 dim) {
  __shared__ unsigned short tile[32][33];
  const u32 across = (dim + 31) / 32, x = threadIdx.x % 32, y = threadIdx.x / 32;
  const u64 tiles = u64((count + 31) / 32) * across;
  for (u64 number = blockIdx.x; number < tiles; number += gridDim.x) {
    const u32 i = u32(number / across) * 32, k = u32(number % across) * 32;
    for (u32 r = y; r < 32; r += kThreads / 32)
      if (i + r < count && k + x < dim) tile[r][x] = rows[u64(i + r) * dim + k + x];
    __syncthreads();
    for (u32 r = y; r < 32; r += kThreads / 32)
      if (k + r < dim && i + x < count) columns[(u64(i / 64) * dim + k + r) * 64 + i % 64 + x] = tile[x][r];
    __syncthreads();
  }
}

// addEnds adds the slopes in s of a stripe of tiles to those of the nodes, in the order of tiles.
extern "C" __global__ void __launch_bounds__(kThreads) addEnds(SlopeJob job, u32 tile) {
  const u32 wide = 2 * tile, high = job.bottom - job.top; // numbers of a tile's row
  const u64 each = u64(1 + kParts) * wide, line = u64(job.bottom) * each, down = u64(high) * wide;
  const u32 across = min(job.bottom, job.across);
  for (u64 at = u64(blockIdx.x) * kThreads + threadIdx.x; at < down + u64(across) * wide; at += u64(gridDim.x) * kThreads) {
    double sum = 0;
    if (at < down) { // nodes in rows
      const u32 row = u32(at / wide);
      const float *from = job.sides + row * line + at % wide;
#pragma unroll 8
      for (u32 column = 0; column < min(job.top + row + 1, across); column++) sum += from[column * each];
      job.ends[u64(job.top) * wide + at] += sum;
      continue;
    }
    const u64 node = at - down;
    const u32 column = u32(node / wide);
    const float *from = job.sides + column * each + wide + node % wide;
    for (u32 row = column > job.top ? column - job.top : 0; row < high; row++)
#pragma unroll
      for (u32 part = 0; part < kParts; part++) sum += from[row * line + part * wide];
    job.ends[u64(2) * job.n + node] += sum;
  }
}
