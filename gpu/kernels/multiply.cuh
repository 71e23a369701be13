// Products of tiles of 64 × 64 by ordinary arithmetic in float32, whatever the rows are stored in.

constexpr u32 kEdge = 512, kTile = 64;
constexpr int kDepth = 16, kThreads = 256;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(unsigned short x) { return __uint_as_float(u32(x) << 16); } // bfloat16

struct Half { unsigned short bits; };
__device__ __forceinline__ float widen(Half x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }

// A stretch of the rows of a tile, turned so that the numbers at one place are beside one another.
typedef float Turned[kDepth][kTile + 4];

// addProducts adds the products of two stretches: each thread has four rows by four columns.
__device__ __forceinline__ void addProducts(Turned &a, Turned &b, float (&out)[4][4]) {
  const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
#pragma unroll
  for (int d = 0; d < kDepth; d++) {
    const float4 x = *reinterpret_cast<float4 *>(&a[d][ty * 4]), y = *reinterpret_cast<float4 *>(&b[d][tx * 4]);
    const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
      for (int c = 0; c < 4; c++) out[r][c] = fmaf(xs[r], ys[c], out[r][c]);
  }
}

template <typename T>
__device__ __forceinline__ void multiply(const T *a, const T *b, u32 first, u32 left, u32 m, u32 n, u32 dim,
                                         float (&out)[4][4]) {
  __shared__ Turned left_, right_;
  for (int r = 0; r < 4; r++)
    for (int c = 0; c < 4; c++) out[r][c] = 0;
  for (u32 k = 0; k < dim; k += kDepth) {
    for (int e = threadIdx.x; e < kTile * kDepth; e += kThreads) {
      const u32 row = e / kDepth, at = e % kDepth;
      left_[at][row] = first + row < m ? widen(a[u64(first + row) * dim + k + at]) : 0.f;
      right_[at][row] = left + row < n ? widen(b[u64(left + row) * dim + k + at]) : 0.f;
    }
    __syncthreads();
    addProducts(left_, right_, out);
    __syncthreads();
  }
}
