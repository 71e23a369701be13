// The sums on a Hopper card.
#include "pairs.cuh"
#include "hopper_tiles.cuh"

constexpr u32 kEdge = 1024;

// addWhole adds the fours of one group of a tile that is whole and even.
template <bool kDense, int kKind>
__device__ __forceinline__ void addWhole(const Job &job, const Corner &c, u32 aside, u32 group, u32 row, u32 column, Totals &t) {
#pragma unroll 1
  for (u32 g = group; g < 32; g += kAdding) {
    Wide z = takeBack(aside + g * 2048);
    float4 a, b;
    if (kDense || kKind == 2) {
      const u32 own = row + g / 16 * (kTile / 2);
      a = __ldg(&job.sourceTerms[own]), b = __ldg(&job.sourceTerms[own + 8]);
      a.y += c.sThere, b.y += c.sThere, a.z += c.sBack, b.z += c.sBack;
    }
    EACH z[e] += kKind == 2 ? (e < 2 ? a.x : b.x) + c.offset : c.offset; // where a pair is for both, it is the same for all
    if (kDense) {
      const float4 both = __ldg(reinterpret_cast<const float4 *>(job.targetTerms + column + g % 16 * 8));
      Wide there, back;
      EACH there[e] = (e < 2 ? a.y : b.y) + (e % 2 ? both.w : both.y);
      EACH back[e] = (e < 2 ? a.z : b.z) + (e % 2 ? both.z : both.x);
      addDense<kKind>(job, z, there, back, t);
    } else if (kKind == 4) {
      t.rare(z);
    } else {
      addEven<kKind>(job, c, z, t);
    }
    t.pairs += kWide;
  }
  if (kKind == 4) t.finish(c.there.x, c.back.x);
  if (!kDense && kKind != 2) t.exposed = float(t.pairs) * (c.there.x + c.back.x);
}

// addTile adds the fours of one group.
template <bool kDense>
__device__ __forceinline__ void addTile(const Job &job, const Corner &c, u32 aside, u32 group, Totals &t) {
  const u32 lane = threadIdx.x % 32, row = c.first + threadIdx.x % 128 / 32 * 16 + lane / 4, column = c.left + lane % 4 * 2;
  if (c.whole && c.even) {
    if (kDense && c.kind == 3) addWhole<kDense, 3>(job, c, aside, group, row, column, t);
    else if (!kDense && c.kind == 4) addWhole<kDense, 4>(job, c, aside, group, row, column, t);
    else if (!kDense && c.kind == 0) addWhole<kDense, 0>(job, c, aside, group, row, column, t);
    else if (!kDense && c.kind == 1) addWhole<kDense, 1>(job, c, aside, group, row, column, t);
    else addWhole<kDense, 2>(job, c, aside, group, row, column, t);
    return;
  }
#pragma unroll 1
  for (u32 g = group; g < 32; g += kAdding) {
    u32 i[kWide], j[kWide];
    EACH i[e] = row + g / 16 * (kTile / 2) + e / 2 * 8, j[e] = column + g % 16 * 8 + e % 2;
    addAny<kDense>(job, takeBack(aside + g * 2048), i, j, t);
  }
}

// PanelWork is the sums over the tiles of a rectangle.
template <bool kDense> struct PanelWork {
  typedef Job Task;
  typedef ::Corner Corner;
  static __device__ __forceinline__ bool tileAt(const Job &job, u64 number, u32 &row, u32 &column) {
    return ::tileAt<kEdge, kTile, kTile>(job, number, row, column);
  }
  struct Adder {
    double sums[kSums] = {};
    __device__ __forceinline__ void add(const Job &job, const Corner &c, u32 aside, u32 group) {
      Totals t;
      addTile<kDense>(job, c, aside, group, t);
      t.keep(sums);
    }
    __device__ __forceinline__ void keep(const Job &job, u64 thread) {
      for (int k = 0; k < kSums; k++) job.sums[thread * kSums + k] = sums[k];
    }
  };
};

#define KERNEL(name, half, dense)                                                                                      \
  extern "C" __global__ void __launch_bounds__(kThreads, 1)                                                            \
  name(Job job, const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b) { addTiles<half, PanelWork<dense>>(job, &a, &b); }
KERNEL(sumPairs_bfloat16, false, false)
KERNEL(sumPairs_float16, true, false)
KERNEL(sumDense_bfloat16, false, true)
KERNEL(sumDense_float16, true, true)
