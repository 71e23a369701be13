// Tiles of products on a Hopper card. Of five groups of four warps, one fetches rows by the copy engine and finds out what
// tiles are like, one multiplies tiles of 128 × 128 on the matrix units and puts the products aside in shared memory, and
// three add them up: that is most of the work, and takes turns on the same units of arithmetic.
#include "hopper.cuh"

constexpr u32 kTile = 128;
constexpr int kDepth = 64, kStages = 3, kBuffers = 2, kCorners = 4;
constexpr int kRowsBytes = kTile * kDepth * 2, kStageBytes = 2 * kRowsBytes, kBufferBytes = kTile * kTile * 4;
constexpr int kAdding = 3; // groups that add up
constexpr int kThreads = 128 * (2 + kAdding);

// Of 96 registers that each thread begins with, those of the other groups give some up to the one that multiplies: 40, 160 and
// three times 88 are less than five times 96, or it would wait for ever.

// A thread of the group that multiplies has 128 products of a tile: 32 times four, of which element e is in row
// lane/4 + 8·(e/2) and in column 2·(lane % 4) + e % 2 of eight; the first sixteen fours are of the upper half.
__device__ __forceinline__ void putAside(u32 to, const float (&acc)[64]) {
#pragma unroll
  for (u32 g = 0; g < 16; g++)
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to + g * 2048), "f"(acc[g * 4]), "f"(acc[g * 4 + 1]), "f"(acc[g * 4 + 2]), "f"(acc[g * 4 + 3]) : "memory");
}
__device__ __forceinline__ Wide takeBack(u32 from) {
  Wide v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(from) : "memory");
  return v;
}

struct Barriers {
  u64 full[kStages], empty[kStages];           // of rows
  u64 made[kBuffers], taken[kBuffers];         // of products
  u64 known[kCorners], forgotten[kCorners];    // of corners
};

// Work says which tiles there are (tileAt), what is known of one beforehand (Corner), and how its products are added up
// (Adder).
template <bool kHalf, typename Work>
__device__ __forceinline__ void addTiles(const typename Work::Task &job, const TensorMap *mapA, const TensorMap *mapB) {
  extern __shared__ unsigned char room[];
  __shared__ alignas(8) Barriers bars;
  __shared__ typename Work::Corner corners[kCorners];
  const u32 base = (shared(room) + 1023) & ~1023u, products = base + kStages * kStageBytes;
  const u32 group = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; s++) barrierInit(shared(&bars.full[s]), 1), barrierInit(shared(&bars.empty[s]), 1);
    for (int s = 0; s < kBuffers; s++) barrierInit(shared(&bars.made[s]), 128), barrierInit(shared(&bars.taken[s]), 128 * kAdding);
    for (int s = 0; s < kCorners; s++) barrierInit(shared(&bars.known[s]), 1), barrierInit(shared(&bars.forgotten[s]), 128 * kAdding);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  const u32 steps = job.dim / kDepth;
  Ring<kStages> stage;
  Ring<kBuffers> buffer;
  Ring<kCorners> corner;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      for (u64 number = job.from + blockIdx.x; number < job.to; number += gridDim.x) {
        u32 row, column;
        if (!Work::tileAt(job, number, row, column)) continue;
        for (u32 k = 0; k < steps; k++, stage.next()) {
          barrierWait(shared(&bars.empty[stage.at]), stage.phase ^ 1);
          const u32 bar = shared(&bars.full[stage.at]), to = base + stage.at * kStageBytes;
          barrierExpect(bar, kStageBytes);
          fetch(to, mapA, bar, k * kDepth, row * kTile);
          fetch(to + kRowsBytes, mapB, bar, k * kDepth, column * kTile);
        }
      }
    } else if (threadIdx.x == 32) {
      for (u64 number = job.from + blockIdx.x; number < job.to; number += gridDim.x) {
        u32 row, column;
        if (!Work::tileAt(job, number, row, column)) continue;
        typename Work::Corner c;
        c.template find<kTile, kTile>(job, row * kTile, column * kTile);
        barrierWait(shared(&bars.forgotten[corner.at]), corner.phase ^ 1);
        corners[corner.at] = c;
        barrierArrive(shared(&bars.known[corner.at]));
        corner.next();
      }
    }
  } else if (group == 1) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
    const u32 mine = products + threadIdx.x % 128 * 16;
    for (u64 number = job.from + blockIdx.x; number < job.to; number += gridDim.x) {
      u32 row, column;
      if (!Work::tileAt(job, number, row, column)) continue;
      float upper[64], lower[64];
      u32 last = 0;
      for (u32 k = 0; k < steps; k++, stage.next()) {
        barrierWait(shared(&bars.full[stage.at]), stage.phase);
        const u32 at = base + stage.at * kStageBytes;
        const u64 a = descriptor(at), b = descriptor(at + kRowsBytes);
        productFence();
#pragma unroll
        for (int d = 0; d < kDepth / 16; d++) {
          product<kHalf>(upper, a + 2 * d, b + 2 * d, (k | d) != 0);
          product<kHalf>(lower, a + (64 * kDepth * 2 >> 4) + 2 * d, b + 2 * d, (k | d) != 0);
        }
        productCommit();
        productWait<1>();
        if (k > 0 && threadIdx.x % 128 == 0) barrierArrive(shared(&bars.empty[last]));
        last = stage.at;
      }
      productWait<0>();
      if (threadIdx.x % 128 == 0) barrierArrive(shared(&bars.empty[last]));
      barrierWait(shared(&bars.taken[buffer.at]), buffer.phase ^ 1);
      putAside(mine + buffer.at * kBufferBytes, upper);
      putAside(mine + buffer.at * kBufferBytes + kBufferBytes / 2, lower);
      barrierArrive(shared(&bars.made[buffer.at]));
      buffer.next();
    }
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 88;");
    typename Work::Adder adder;
    const u32 mine = products + threadIdx.x % 128 * 16;
    for (u64 number = job.from + blockIdx.x; number < job.to; number += gridDim.x) {
      u32 row, column;
      if (!Work::tileAt(job, number, row, column)) continue;
      barrierWait(shared(&bars.known[corner.at]), corner.phase);
      const typename Work::Corner c = corners[corner.at];
      barrierArrive(shared(&bars.forgotten[corner.at]));
      corner.next();
      barrierWait(shared(&bars.made[buffer.at]), buffer.phase);
      adder.add(job, c, mine + buffer.at * kBufferBytes, group - 2);
      barrierArrive(shared(&bars.taken[buffer.at]));
      buffer.next();
    }
    adder.keep(job, u64(blockIdx.x) * 128 * kAdding + threadIdx.x - 256);
  }
}
