// Lists on a Hopper card. Of three groups of four warps, one fetches rows by the copy engine, and two multiply tiles of
// 64 × 256 on the matrix units and look through the products while these are in registers.
#include "pairs.cuh"
#include "lists.cuh"
#include "hopper.cuh"

constexpr u32 kEdge = 2048, kRows = 128, kColumns = 256;
constexpr int kDepth = 64, kStages = 4;
constexpr int kLeftBytes = kRows * kDepth * 2, kRightBytes = kColumns * kDepth * 2, kStageBytes = kLeftBytes + kRightBytes;
constexpr int kThreads = 128 * 3;

// Of 168 registers that each thread begins with, the first group gives some up to the others: 24 and twice 240.

__device__ __forceinline__ void product(float (&acc)[128], u64 a, u64 b, int keep) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\nwgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 " LIST128 ", %128, %129, p, 1, 1, 0, 0;\n}" : REG64(acc), REG8(acc, 64), REG8(acc, 72), REG8(acc, 80), REG8(acc, 88), REG8(acc, 96), REG8(acc, 104), REG8(acc, 112), REG8(acc, 120) : "l"(a), "l"(b), "r"(keep));
}

// look offers the products of a thread: element e of four is in row lane/4 + 8·(e/2) and in column 2·(lane % 4) + e % 2 of
// eight. What is known of its two rows is in registers, so that most products cost one comparison.
__device__ __forceinline__ void look(const Search &s, const float (&acc)[128], u32 row, u32 column) {
  if (row >= s.m) return;
  const u32 other = min(row + 8, s.m - 1);
  const float scale[2] = {s.scales[row], s.scales[other]};
  const float least[2] = {s.least[row], row + 8 < s.m ? s.least[other] : INFINITY};
  if (s.known || s.scores) {
    const float slope[2] = {s.slopes ? s.slopes[row] : 0, s.slopes ? s.slopes[other] : 0};
#pragma unroll
    for (int k = 0; k < 64; k++) { // by columns: elements c and c + 2 of four
      const u32 j = column + k / 2 * 8 + k % 2;
      if (j >= s.n) continue;
      const float value = s.slopes ? s.values[j] : 0;
      const u32 field = s.offsets ? s.fields[j] : 0;
      const bool may = !s.among || s.among[j];
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const u32 i = row + 8 * h;
        if (i >= s.m) continue;
        float score = acc[k / 2 * 4 + k % 2 + 2 * h] * scale[h];
        if (s.offsets) score += s.offsets[u64(i) * s.fieldCount + field];
        score = may ? fmaf(slope[h], value, score) : -INFINITY;
        if (s.scores) s.scores[u64(i) * s.n + j] = score;
        else if (score > least[h]) find(s, i, j, score);
      }
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < 128; k++) {
    const float score = acc[k] * scale[k / 2 % 2];
    if (score > least[k / 2 % 2]) {
      const u32 j = column + k / 4 * 8 + k % 2;
      if (j < s.n) find(s, row + 8 * (k / 2 % 2), j, score);
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
findPairs_float16(Search s, const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b) {
  extern __shared__ unsigned char room[];
  __shared__ alignas(8) u64 full[kStages], empty[kStages];
  const u32 base = (shared(room) + 1023) & ~1023u, group = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int k = 0; k < kStages; k++) barrierInit(shared(&full[k]), 1), barrierInit(shared(&empty[k]), 2);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  const u32 steps = s.dim / kDepth;
  Ring<kStages> stage;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x > 0) return;
    for (u64 number = s.from + blockIdx.x; number < s.to; number += gridDim.x) {
      u32 row, column;
      if (!tileAt<kEdge, kRows, kColumns>(s, number, row, column)) continue;
      for (u32 k = 0; k < steps; k++, stage.next()) {
        barrierWait(shared(&empty[stage.at]), stage.phase ^ 1);
        const u32 bar = shared(&full[stage.at]), to = base + stage.at * kStageBytes;
        barrierExpect(bar, kStageBytes);
        fetch(to, &a, bar, k * kDepth, row * kRows);
        fetch(to + kLeftBytes, &b, bar, k * kDepth, column * kColumns);
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  const u32 lane = threadIdx.x % 32, inside = (group - 1) * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4;
  for (u64 number = s.from + blockIdx.x; number < s.to; number += gridDim.x) {
    u32 row, column;
    if (!tileAt<kEdge, kRows, kColumns>(s, number, row, column)) continue;
    float acc[128];
    u32 last = 0;
    for (u32 k = 0; k < steps; k++, stage.next()) {
      barrierWait(shared(&full[stage.at]), stage.phase);
      const u32 at = base + stage.at * kStageBytes;
      const u64 left = descriptor(at + (group - 1) * (kLeftBytes / 2)), right = descriptor(at + kLeftBytes);
      productFence();
#pragma unroll
      for (int d = 0; d < kDepth / 16; d++) product(acc, left + 2 * d, right + 2 * d, (k | d) != 0);
      productCommit();
      productWait<1>();
      if (k > 0 && threadIdx.x % 128 == 0) barrierArrive(shared(&empty[last]));
      last = stage.at;
    }
    productWait<0>();
    if (threadIdx.x % 128 == 0) barrierArrive(shared(&empty[last]));
    look(s, acc, row * kRows + inside, column * kColumns + lane % 4 * 2);
  }
}
