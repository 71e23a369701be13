// Tiles of 128 × 256 products on a Hopper card. Of three groups of four warps, one fetches rows by the copy engine, and two
// multiply them on the matrix units, each 64 of the rows, and work on their products, which stay in registers. A tile is of
// two columns of tiles of 128 × 128: the wider it is, the fewer bytes move for a pair, and a card at work on this is at the
// limit of its power.
#include "hopper.cuh"

constexpr u32 kTile = 128;
constexpr int kDepth = 64, kStages = 4;
constexpr int kRowsBytes = kTile * kDepth * 2, kStageBytes = 3 * kRowsBytes;
constexpr int kThreads = 128 * 3;

// Of 168 registers that each thread begins with, the first group gives some up to the others: 24 and twice 240.

__device__ __forceinline__ void productWide(float (&acc)[128], u64 a, u64 b, int keep) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\nwgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 " LIST128
               ", %128, %129, p, 1, 1, 0, 0;\n}"
               : REG128(acc)
               : "l"(a), "l"(b), "r"(keep));
}

// Work says which tiles there are (tileAt), by their row and their first column of tiles, and what is done with their
// products (Adder): begin is told of the tile before they are made, add has those of a thread, and keep ends. A thread has 128
// products of the rows of its group: 32 times four, of which element e is in row lane/4 + 8·(e/2) and in column
// 2·(lane % 4) + e % 2 of eight; the first sixteen fours are of the first column of tiles.
template <typename Work>
__device__ __forceinline__ void wideTiles(const typename Work::Task &job, const TensorMap *mapA, const TensorMap *mapB) {
  extern __shared__ unsigned char room[];
  __shared__ alignas(8) u64 full[kStages], empty[kStages];
  const u32 base = (shared(room) + 1023) & ~1023u, group = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int k = 0; k < kStages; k++) barrierInit(shared(&full[k]), 1), barrierInit(shared(&empty[k]), 2);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  const u32 steps = job.dim / kDepth;
  Ring<kStages> stage;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
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
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  typename Work::Adder adder;
  for (u64 number = job.from + blockIdx.x; number < job.to; number += gridDim.x) {
    u32 row, column;
    if (!Work::tileAt(job, number, row, column)) continue;
    adder.begin(job, row, column);
    float acc[128];
    u32 last = 0;
    for (u32 k = 0; k < steps; k++, stage.next()) {
      barrierWait(shared(&full[stage.at]), stage.phase);
      const u32 at = base + stage.at * kStageBytes;
      const u64 a = descriptor(at + (group - 1) * (kRowsBytes / 2)), b = descriptor(at + kRowsBytes);
      productFence();
#pragma unroll
      for (int d = 0; d < kDepth / 16; d++) productWide(acc, a + 2 * d, b + 2 * d, (k | d) != 0);
      productCommit();
      productWait<1>();
      if (k > 0 && threadIdx.x % 128 == 0) barrierArrive(shared(&empty[last]));
      last = stage.at;
    }
    productWait<0>();
    if (threadIdx.x % 128 == 0) barrierArrive(shared(&empty[last]));
    adder.add(job, acc, base + kStages * kStageBytes);
  }
  adder.keep(job);
}
