// The sums on a Hopper card. Two groups of four warps take turns: while one multiplies a tile of 128 × 128 on the matrix
// units, the other makes the sums of its last one. A fifth warp fetches rows ahead of both, by the copy engine.
#include "pairs.cuh"

struct alignas(64) TensorMap { u64 opaque[16]; }; // CUtensorMap

constexpr int kTile = 128, kDepth = 64, kStages = 6;
constexpr int kRowsBytes = kTile * kDepth * 2, kStageBytes = 2 * kRowsBytes;
constexpr int kThreads = 384; // the fetching group, and two that compute

__device__ __forceinline__ u32 shared(const void *p) { return u32(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void barrierInit(u32 bar, u32 count) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(count)); }
__device__ __forceinline__ void barrierExpect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrierArrive(u32 bar) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(bar) : "memory"); }
__device__ __forceinline__ void barrierWait(u32 bar, u32 phase) {
  asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@p bra done;\nbra again;\ndone:\n}" ::"r"(bar), "r"(phase) : "memory");
}

// fetch copies a box of kTile rows by kDepth numbers.
__device__ __forceinline__ void fetch(u32 to, const TensorMap *map, u32 bar, int k, int row) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to), "l"(map), "r"(bar), "r"(k), "r"(row) : "memory");
}

// descriptor names rows of 128 bytes in shared memory, swizzled as the copy engine leaves them.
__device__ __forceinline__ u64 descriptor(u32 address) {
  return u64((address & 0x3ffff) >> 4) | u64(1) << 16 | u64(1024 >> 4) << 32 | u64(1) << 62;
}

__device__ __forceinline__ void turnWait(int who) { asm volatile("bar.sync %0, 256;" ::"r"(who) : "memory"); }
__device__ __forceinline__ void turnGive(int who) { asm volatile("bar.arrive %0, 256;" ::"r"(who) : "memory"); }

#define REG8(a, o) "+f"(a[o]), "+f"(a[o + 1]), "+f"(a[o + 2]), "+f"(a[o + 3]), "+f"(a[o + 4]), "+f"(a[o + 5]), "+f"(a[o + 6]), "+f"(a[o + 7])
#define REG64(a) REG8(a, 0), REG8(a, 8), REG8(a, 16), REG8(a, 24), REG8(a, 32), REG8(a, 40), REG8(a, 48), REG8(a, 56)
#define LIST64                                                                                                         \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"    \
  "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,"    \
  "%58,%59,%60,%61,%62,%63}"

template <bool kHalf>
__device__ __forceinline__ void product(float (&acc)[64], u64 a, u64 b, int keep) {
  if (kHalf)
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " LIST64 ", %64, %65, p, 1, 1, 0, 0;\n}" : REG64(acc) : "l"(a), "l"(b), "r"(keep));
  else
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " LIST64 ", %64, %65, p, 1, 1, 0, 0;\n}" : REG64(acc) : "l"(a), "l"(b), "r"(keep));
}
__device__ __forceinline__ void productFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void productCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kLeft> __device__ __forceinline__ void productWait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory"); }

// forward moves the sums of the matrix units down, so that the code that reads the first of them serves all.
template <int kBy> __device__ __forceinline__ void forward(float (&acc)[128]) {
#pragma unroll
  for (int e = 0; e + kBy < 128; e++) acc[e] = acc[e + kBy];
}

// addWhole adds a tile that is whole and even.
template <bool kDense, int kKind>
__device__ __forceinline__ void addWhole(const Job &job, const Corner &c, float (&acc)[128], u32 row, u32 column, Totals &t) {
#pragma unroll 1
  for (u32 half = 0; half < 2; half++) {
    const float4 a = job.sourceTerms[row + half * 64], b = job.sourceTerms[row + half * 64 + 8];
    const float za = a.x + c.offset, zb = b.x + c.offset;
#pragma unroll
    for (u32 g = 0; g < 16; g++) {
      if (kDense) {
        const float4 both = *reinterpret_cast<const float4 *>(job.targetTerms + column + g * 8);
        const float2 l = make_float2(both.x, both.y), r = make_float2(both.z, both.w);
#pragma unroll
        for (u32 e = 0; e < 4; e++)
          addDense<kKind>(job, c, acc[g * 4 + e] + (e < 2 ? za : zb), e < 2 ? a : b, e % 2 ? r : l, t);
      } else {
#pragma unroll
        for (u32 e = 0; e < 4; e++) addEven<kKind>(job, c, acc[g * 4 + e] + (e < 2 ? za : zb), t);
      }
    }
    forward<64>(acc);
  }
}

// Of the 128 sums of a thread, element 4·g + 2·h + e of each half is in row lane/4 + 8·h and column 8·g + 2·(lane % 4) + e.
template <bool kDense>
__device__ __forceinline__ void addTile(const Job &job, const Corner &c, float (&acc)[128], Totals &t) {
  const u32 lane = threadIdx.x % 32, row = c.first + threadIdx.x % 128 / 32 * 16 + lane / 4, column = c.left + lane % 4 * 2;
  if (!c.whole || !c.even) {
#pragma unroll 1
    for (u32 g = 0; g < 32; g++) { // four at a time: there are few such tiles
#pragma unroll
      for (u32 e = 0; e < 4; e++)
        addAny<kDense>(job, acc[e], row + g / 16 * 64 + e / 2 * 8, column + g % 16 * 8 + e % 2, t);
      forward<4>(acc);
    }
    return;
  }
  if (!kDense && c.kind == 0) addWhole<kDense, 0>(job, c, acc, row, column, t);
  else if (c.kind < 2) addWhole<kDense, 1>(job, c, acc, row, column, t);
  else addWhole<kDense, 2>(job, c, acc, row, column, t);
  t.pairs += 128;
}

template <bool kHalf, bool kDense>
__device__ __forceinline__ void sumPairs(const Job &job, const TensorMap *mapA, const TensorMap *mapB) {
  extern __shared__ unsigned char room[];
  __shared__ alignas(8) u64 full[kStages], empty[kStages];
  const u32 base = (shared(room) + 1023) & ~1023u;
  const int group = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; s++) {
      barrierInit(shared(&full[s]), 1);
      barrierInit(shared(&empty[s]), 1);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  const u32 steps = job.dim / kDepth;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      u32 stage = 0, phase = 0;
      for (u64 number = job.from + blockIdx.x; number < job.to; number += gridDim.x) {
        u32 row, column;
        if (!tileAt(job, number, kTile, row, column)) continue;
        for (u32 k = 0; k < steps; k++) {
          barrierWait(shared(&empty[stage]), phase ^ 1);
          const u32 bar = shared(&full[stage]), to = base + stage * kStageBytes;
          barrierExpect(bar, kStageBytes);
          fetch(to, mapA, bar, k * kDepth, row * kTile);
          fetch(to + kRowsBytes, mapB, bar, k * kDepth, column * kTile);
          if (++stage == kStages) stage = 0, phase ^= 1;
        }
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  double sums[kSums] = {};
  const u32 mine = group - 1;
  u32 stage = 0, phase = 0, turn = 0;
  if (mine == 1) turnGive(1);
  for (u64 number = job.from + blockIdx.x; number < job.to; number += gridDim.x) {
    u32 row, column;
    if (!tileAt(job, number, kTile, row, column)) continue;
    if ((turn++ & 1) != mine) { // its rows go by
      stage += steps % kStages;
      phase ^= (steps / kStages) & 1;
      if (stage >= kStages) stage -= kStages, phase ^= 1;
      continue;
    }
    float acc[128];
    float(&upper)[64] = *reinterpret_cast<float(*)[64]>(&acc[0]), (&lower)[64] = *reinterpret_cast<float(*)[64]>(&acc[64]);
    turnWait(1 + mine);
    u32 last = stage;
    for (u32 k = 0; k < steps; k++) {
      barrierWait(shared(&full[stage]), phase);
      const u32 at = base + stage * kStageBytes;
      const u64 a = descriptor(at), b = descriptor(at + kRowsBytes);
      productFence();
#pragma unroll
      for (int d = 0; d < kDepth / 16; d++) {
        product<kHalf>(upper, a + 2 * d, b + 2 * d, (k | d) != 0);
        product<kHalf>(lower, a + (64 * kDepth * 2 >> 4) + 2 * d, b + 2 * d, (k | d) != 0);
      }
      productCommit();
      productWait<1>();
      if (k > 0 && threadIdx.x % 128 == 0) barrierArrive(shared(&empty[last]));
      last = stage;
      if (++stage == kStages) stage = 0, phase ^= 1;
    }
    turnGive(1 + (mine ^ 1));
    productWait<0>();
    if (threadIdx.x % 128 == 0) barrierArrive(shared(&empty[last]));
    Corner c;
    c.find<kTile, kTile>(job, row, column);
    Totals t;
    addTile<kDense>(job, c, acc, t);
    t.keep(sums);
  }
  if (mine == 0 ? (turn & 1) == 0 : (turn & 1) == 1) turnWait(1 + mine); // the last turn that was given
  for (int k = 0; k < kSums; k++) job.sums[(u64(blockIdx.x) * 256 + threadIdx.x - 128) * kSums + k] = sums[k];
}

#define KERNEL(name, half, dense)                                                                                      \
  extern "C" __global__ void __launch_bounds__(kThreads, 1)                                                            \
  name(Job job, const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b) { sumPairs<half, dense>(job, &a, &b); }
KERNEL(sumPairs_bfloat16, false, false)
KERNEL(sumPairs_float16, true, false)
KERNEL(sumDense_bfloat16, false, true)
KERNEL(sumDense_float16, true, true)
