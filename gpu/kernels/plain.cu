// The sums on any card.
#include "pairs.cuh"
#include "multiply.cuh"

template <typename T, bool kDense>
__device__ __forceinline__ void addTile(const Job &job, const Corner &c, const float (&product)[4][4], Totals &t) {
#pragma unroll
  for (int r = 0; r < 4; r++) {
      Wide some;
      u32 i[kWide], j[kWide];
      EACH some[e] = product[r][e], i[e] = c.first + threadIdx.x / 16 * 4 + r, j[e] = c.left + threadIdx.x % 16 * 4 + e;
      addAny<kDense>(job, some, i, j, t);
    }
}

template <typename T>
__device__ __forceinline__ void sumPairs(const Job &job, const T *a, const T *b) {
  double sums[kSums] = {};
  for (u64 number = job.from + blockIdx.x; number < job.to; number += gridDim.x) {
    u32 row, column;
    if (!tileAt<kEdge, kTile, kTile>(job, number, row, column)) continue;
    Corner c;
    c.find<kTile, kTile>(job, row * kTile, column * kTile);
    float product[4][4];
    multiply(a, b, c.first, c.left, job.m, job.n, job.dim, product);
    Totals t;
    if (job.dense) addTile<T, true>(job, c, product, t);
    else addTile<T, false>(job, c, product, t);
    t.keep(sums);
  }
  for (int k = 0; k < kSums; k++) job.sums[(u64(blockIdx.x) * kThreads + threadIdx.x) * kSums + k] = sums[k];
}

extern "C" __global__ void __launch_bounds__(kThreads) sumPairs_float32(Job job, const float *a, const float *b) { sumPairs(job, a, b); }
extern "C" __global__ void __launch_bounds__(kThreads) sumPairs_bfloat16(Job job, const unsigned short *a, const unsigned short *b) { sumPairs(job, a, b); }
extern "C" __global__ void __launch_bounds__(kThreads) sumPairs_float16(Job job, const Half *a, const Half *b) { sumPairs(job, a, b); }
