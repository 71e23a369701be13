// Tiles of 128 × 128 products on a Hopper card. Of three groups of four warps, one fetches rows by the copy engine, and two
// take tiles in turns: while one multiplies on the matrix units, the other works on its products, which stay in registers.
#include "hopper.cuh"

constexpr u32 kTile = 128;
constexpr int kDepth = 64, kStages = 6;
constexpr int kRowsBytes = kTile * kDepth * 2, kStageBytes = 2 * kRowsBytes;
constexpr int kThreads = 128 * 3;

// Of 168 registers that each thread begins with, the first group gives some up to the others: 40 and twice 232.

// Work says which tiles there are (tileAt), and what is done with a tile's products (Adder): begin is told of the tile before
// they are made, add has those of a thread, and keep ends. A thread has 64 products of either half of the rows: sixteen times
// four, of which element e is in row lane/4 + 8·(e/2) and in column 2·(lane % 4) + e % 2 of eight.
template <typename Work>
__device__ __forceinline__ void tilesInTurns(const typename Work::Task &job, const TensorMap *mapA, const TensorMap *mapB) {
  extern __shared__ unsigned char room[];
  __shared__ alignas(8) u64 full[kStages], empty[kStages], done[2];
  const u32 base = (shared(room) + 1023) & ~1023u, group = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int k = 0; k < kStages; k++) barrierInit(shared(&full[k]), 1), barrierInit(shared(&empty[k]), 1);
    for (int g = 0; g < 2; g++) barrierInit(shared(&done[g]), 128);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  const u32 steps = job.dim / kDepth;
  Ring<kStages> stage;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x > 0) return;
    for (u64 number = job.from + blockIdx.x; number < job.to; number += gridDim.x) {
      u32 row, column;
      if (!Work::tileAt(job, number, row, column)) continue;
      for (u32 k = 0; k < steps; k++, stage.next()) {
        barrierWait(shared(&empty[stage.at]), stage.phase ^ 1);
        const u32 bar = shared(&full[stage.at]), to = base + stage.at * kStageBytes;
        barrierExpect(bar, kStageBytes);
        fetch(to, mapA, bar, k * kDepth, row * kTile);
        fetch(to + kRowsBytes, mapB, bar, k * kDepth, column * kTile);
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  typename Work::Adder adder;
  u32 turn = 0;
  for (u64 number = job.from + blockIdx.x; number < job.to; number += gridDim.x) {
    u32 row, column;
    if (!Work::tileAt(job, number, row, column)) continue;
    const u32 own = group - 1, before = turn++;
    if (before % 2 != own) { // the other's
      for (u32 k = 0; k < steps; k++) stage.next();
      continue;
    }
    adder.begin(job, row, column);
    // until the other has all of its rows: they come around in the ring more than once, which a barrier cannot tell
    if (before > 0) barrierWait(shared(&done[1 - own]), (before - 1) / 2 % 2);
    float upper[64], lower[64];
    u32 last = 0;
    for (u32 k = 0; k < steps; k++, stage.next()) {
      barrierWait(shared(&full[stage.at]), stage.phase);
      const u32 at = base + stage.at * kStageBytes;
      const u64 a = descriptor(at), b = descriptor(at + kRowsBytes);
      productFence();
#pragma unroll
      for (int d = 0; d < kDepth / 16; d++) {
        product<false>(upper, a + 2 * d, b + 2 * d, (k | d) != 0);
        product<false>(lower, a + (64 * kDepth * 2 >> 4) + 2 * d, b + 2 * d, (k | d) != 0);
      }
      productCommit();
      productWait<1>();
      if (k > 0 && threadIdx.x % 128 == 0) barrierArrive(shared(&empty[last]));
      last = stage.at;
    }
    barrierArrive(shared(&done[own]));
    productWait<0>();
    if (threadIdx.x % 128 == 0) barrierArrive(shared(&empty[last]));
    adder.add(job, upper, lower, base + kStages * kStageBytes);
  }
  adder.keep(job);
}
