// Sums over pairs that were drawn. The product x of a pair is that of its two rows, number by number; rows are in float32 and
// padded with zeros.
#include "pairs.cuh"
#include "multiply.cuh"

// Drawn is the pairs. Its layout is that of gpu.drawn.
struct Drawn {
  const float *rows;
  const u32 *sources, *targets;
  u32 count;
  u32 dim; // numbers of a row, padded
};

// dotPairs sets the inner product of w and every pair's product, a warp per pair.
extern "C" __global__ void __launch_bounds__(kThreads) dotPairs(Drawn s, const float *w, float *out) {
  const u32 lane = threadIdx.x % 32, warps = gridDim.x * (kThreads / 32);
  for (u32 k = blockIdx.x * (kThreads / 32) + threadIdx.x / 32; k < s.count; k += warps) {
    const float *a = s.rows + u64(s.sources[k]) * s.dim, *b = s.rows + u64(s.targets[k]) * s.dim;
    float sum = 0;
    for (u32 d = lane * 4; d < s.dim; d += 128) {
      const float4 x = *reinterpret_cast<const float4 *>(a + d), y = *reinterpret_cast<const float4 *>(b + d);
      const float4 v = *reinterpret_cast<const float4 *>(w + d);
      sum = fmaf(v.x, x.x * y.x, fmaf(v.y, x.y * y.y, fmaf(v.z, x.z * y.z, fmaf(v.w, x.w * y.w, sum))));
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (lane == 0) out[k] = sum;
  }
}

// addPairs adds products times weights, a block per segment of an order of the pairs: in float32 over a few, then in float64.
extern "C" __global__ void __launch_bounds__(kThreads)
addPairs(Drawn s, const float *weights, const u32 *order, const u32 *starts, u32 segments, double *out) {
  constexpr u32 kFew = 64;
  for (u32 g = blockIdx.x; g < segments; g += gridDim.x)
    for (u32 d = threadIdx.x; d < s.dim; d += kThreads) {
      double total = 0;
      for (u32 from = starts[g]; from < starts[g + 1]; from += kFew) {
        const u32 to = min(from + kFew, starts[g + 1]);
        float sum = 0;
        for (u32 at = from; at < to; at++) {
          const u32 k = order[at];
          sum = fmaf(weights[k], s.rows[u64(s.sources[k]) * s.dim + d] * s.rows[u64(s.targets[k]) * s.dim + d], sum);
        }
        total += sum;
      }
      out[u64(g) * s.dim + d] = total;
    }
}

// productAt is one number of a pair's product; of a pair beyond the last, nothing.
__device__ __forceinline__ float productAt(const Drawn &s, u32 k, u32 d) {
  return k < s.count ? s.rows[u64(s.sources[k]) * s.dim + d] * s.rows[u64(s.targets[k]) * s.dim + d] : 0.f;
}

// addSquares adds weight·x xᵀ: a block per tile of the lower triangle and part of the pairs.
extern "C" __global__ void __launch_bounds__(kThreads)
addSquares(Drawn s, const float *weights, u32 parts, u32 tiles, double *out) {
  __shared__ Turned left_, right_;
  const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  constexpr u32 kFew = 512;
  const u32 part = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  u32 row = 0;
  while ((row + 1) * (row + 2) / 2 <= tile) row++;
  const u32 first = row * kTile, left = (tile - row * (row + 1) / 2) * kTile;
  double total[4][4] = {};
  const u32 from = u32(u64(s.count) * part / parts), to = u32(u64(s.count) * (part + 1) / parts);
  for (u32 start = from; start < to; start += kFew) {
    float sum[4][4] = {};
    for (u32 k = start; k < min(start + kFew, to); k += kDepth) {
      for (int e = threadIdx.x; e < int(kTile) * kDepth; e += kThreads) {
        const u32 pair = k + e / kTile, at = e % kTile;
        const float weight = pair < to ? weights[pair] : 0.f;
        left_[e / kTile][at] = pair < to ? weight * productAt(s, pair, first + at) : 0.f;
        right_[e / kTile][at] = pair < to ? productAt(s, pair, left + at) : 0.f;
      }
      __syncthreads();
      addProducts(left_, right_, sum);
      __syncthreads();
    }
    for (int r = 0; r < 4; r++)
      for (int c = 0; c < 4; c++) total[r][c] += sum[r][c];
  }
  for (int r = 0; r < 4; r++)
    for (int c = 0; c < 4; c++) out[(u64(blockIdx.x) * kTile + ty * 4 + r) * kTile + tx * 4 + c] = total[r][c];
}

// addLengths sets the sum of (row·x + offset)² over rows, a block per tile of pairs. There are rows of zeros up to a multiple
// of kTile.
extern "C" __global__ void __launch_bounds__(kThreads)
addLengths(Drawn s, const float *rows, const float *offsets, u32 count, float *out) {
  __shared__ Turned left_, right_;
  __shared__ float sums[kTile][17];
  const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  for (u32 first = blockIdx.x * kTile; first < s.count; first += gridDim.x * kTile) {
    float total[4] = {};
    for (u32 r0 = 0; r0 < count; r0 += kTile) {
      float sum[4][4];
      for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) sum[r][c] = offsets[r0 + tx * 4 + c];
      for (u32 k = 0; k < s.dim; k += kDepth) {
        for (int e = threadIdx.x; e < int(kTile) * kDepth; e += kThreads) {
          const u32 at = e / kDepth, d = k + e % kDepth;
          left_[e % kDepth][at] = productAt(s, first + at, d);
          right_[e % kDepth][at] = rows[u64(r0 + at) * s.dim + d];
        }
        __syncthreads();
        addProducts(left_, right_, sum);
        __syncthreads();
      }
      for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) total[r] = fmaf(sum[r][c], sum[r][c], total[r]);
    }
    for (int r = 0; r < 4; r++) sums[ty * 4 + r][tx] = total[r];
    __syncthreads();
    if (threadIdx.x < kTile && first + threadIdx.x < s.count) {
      float sum = 0;
      for (int c = 0; c < 16; c++) sum += sums[threadIdx.x][c];
      out[first + threadIdx.x] = sum;
    }
    __syncthreads();
  }
}
