// Tiles of products on a Hopper card whose matrix units do not wait for what is done with them. Of three groups of four warps,
// one fetches rows by the copy engine, and two multiply them, each 64 of the rows of a tile. A thread has room for the
// products of two tiles: while those of one are made, it works on those of the one before.
//
// kShare blocks, a cluster, work on tiles below one another at the same time and share their columns: each fetches a part of
// their rows for all of them, so that fewer bytes move. A card at work on this is at the limit of its power.
#include "hopper.cuh"

constexpr u32 kTile = 128, kShare = 2;
constexpr int kDepth = 64, kRowsBytes = kTile * kDepth * 2;
constexpr int kThreads = 128 * 3, kMultiplying = 256;

// Of 168 registers that each thread begins with, the first group gives some up to the others: 24 and twice 240.

#define REG96(a) REG64(a), REG8(a, 64), REG8(a, 72), REG8(a, 80), REG8(a, 88)
#define LIST96 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26," \
  "%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51," \
  "%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76," \
  "%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95}"

__device__ __forceinline__ void product(float (&acc)[96], u64 a, u64 b, int keep) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\nwgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 " LIST96
               ", %96, %97, p, 1, 1, 0, 0;\n}"
               : REG96(acc)
               : "l"(a), "l"(b), "r"(keep));
}

__device__ __forceinline__ u32 rankInCluster() { u32 r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
// inBlock is the address of the same thing in another block of the cluster.
__device__ __forceinline__ u32 inBlock(u32 address, u32 rank) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
__device__ __forceinline__ void arriveThere(u32 bar) { asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory"); }
__device__ __forceinline__ void waitForAll(u32 bar, u32 phase) {
  asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n@p bra done;\nbra again;\ndone:\n}" ::"r"(bar), "r"(phase) : "memory");
}
__device__ __forceinline__ void clusterSync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// fetchForAll copies a box to the same place of all blocks, and tells the same barrier of each.
__device__ __forceinline__ void fetchForAll(u32 to, const TensorMap *map, u32 bar, int k, int row) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to), "l"(map), "r"(bar), "r"(k), "r"(row), "h"((unsigned short)((1 << kShare) - 1)) : "memory");
}

// Walk goes from one tile of a cluster to its next, without the divisions and roots of tileAt: a thread that is busy with
// those fetches nothing. Tiles are numbered in squares of kEdge × kEdge nodes.
template <u32 kEdge, u32 kAcross> struct Walk {
  static constexpr u32 kDown = kEdge / (kTile * kShare), kBeside = kEdge / kAcross;
  u64 number;
  u32 r, c, within; // its square, and where it is in it
  __device__ __forceinline__ void begin(const Job &job, u64 from) {
    number = from;
    const u64 square = from / (kDown * kBeside);
    within = u32(from % (kDown * kBeside));
    squareAt(job, square, (job.n + kEdge - 1) / kEdge, r, c);
  }
  __device__ __forceinline__ void next(const Job &job, u32 step) {
    number += step;
    for (within += step; within >= kDown * kBeside; within -= kDown * kBeside) {
      c++;
      if (job.triangle ? c > r : c * kEdge >= job.n) c = 0, r++;
    }
  }
  // at sets the row and column of a block's own of tiles below one another, and reports whether any of them has pairs.
  __device__ __forceinline__ bool at(const Job &job, u32 rank, u32 &row, u32 &column) const {
    const u32 below = r * kDown + within / kBeside;
    column = c * kBeside + within % kBeside;
    row = below * kShare + rank;
    return below * kTile * kShare < job.m && column * kAcross < job.n &&
           !(job.triangle && column * kAcross >= (below + 1) * kTile * kShare);
  }
};

// What the group that fetches says of the tile whose first rows are in a stage: it is one; it is the last once more, whose
// products nobody needs; it is one that was put off; there are no more of these; there is nothing more.
enum Kind { kNew, kFlush, kAgain, kPhaseEnds, kEnd };
struct Message {
  u32 row, column, kind, place; // place: of the tile in its phase
};

// Exchange is what the groups of a block share.
template <int kStages> struct Exchange {
  u64 full[kStages], empty[kStages];
  Message say[kStages];
  __device__ __forceinline__ void begin() {
    for (int k = 0; k < kStages; k++) barrierInit(shared(&full[k]), 1), barrierInit(shared(&empty[k]), 2 * kShare);
  }
};

// Pipe is the rows on their way. Shape says how wide tiles are (kAcross) and how many stages there are (kStages).
template <typename Shape> struct Pipe {
  static constexpr u32 kAcross = Shape::kAcross;
  static constexpr int kStages = Shape::kStages, kOwn = kAcross / 2, kStageBytes = kRowsBytes + kAcross * kDepth * 2;
  Exchange<kStages> &x;
  const u32 base, steps, group, rank;
  Ring<kStages> stage;
  u32 last = 0;

  // say tells the other groups of a tile, or that there is none.
  __device__ __forceinline__ void say(const Message &m) {
    barrierWait(shared(&x.empty[stage.at]), stage.phase ^ 1);
    x.say[stage.at] = m;
  }
  // send fetches the rows of a tile.
  __device__ __forceinline__ void send(const Message &m, const TensorMap *mapA, const TensorMap *mapB) {
    say(m);
    for (u32 k = 0; k < steps; k++, stage.next()) {
      if (k > 0) barrierWait(shared(&x.empty[stage.at]), stage.phase ^ 1);
      const u32 bar = shared(&x.full[stage.at]), to = base + stage.at * kStageBytes, part = rank * (kAcross / kShare);
      barrierExpect(bar, kStageBytes);
      fetch(to, mapA, bar, k * kDepth, m.row * kTile);
      fetchForAll(to + kRowsBytes + part * kDepth * 2, mapB, bar, k * kDepth, m.column * kAcross + part);
    }
  }
  __device__ __forceinline__ void signal(Kind kind) {
    say({0, 0, u32(kind), 0});
    barrierArrive(shared(&x.full[stage.at]));
    stage.next();
  }

  // hear waits for the first rows of a tile.
  __device__ __forceinline__ Message hear() {
    barrierWait(shared(&x.full[stage.at]), stage.phase);
    return x.say[stage.at];
  }
  // release tells all blocks that a group needs a stage no more.
  __device__ __forceinline__ void release(u32 at) {
    if (threadIdx.x % 128 < kShare) arriveThere(inBlock(shared(&x.empty[at]), threadIdx.x % 128));
  }
  // multiply begins a step, whose rows are there.
  __device__ __forceinline__ void multiply(float (&acc)[kOwn], int keep) {
    const u32 at = base + stage.at * kStageBytes;
    const u64 a = descriptor(at + (group - 1) * (kRowsBytes / 2)), b = descriptor(at + kRowsBytes);
    productFence();
#pragma unroll
    for (int d = 0; d < kDepth / 16; d++) product(acc, a + 2 * d, b + 2 * d, keep | d);
    productCommit();
  }
  // onwards gives back the stage of the step before, which is done when this one is all that is at work.
  __device__ __forceinline__ void onwards(bool any) {
    productWait<1>();
    if (any) release(last);
    last = stage.at;
    stage.next();
  }
  __device__ __forceinline__ void step(float (&acc)[kOwn]) {
    barrierWait(shared(&x.full[stage.at]), stage.phase);
    multiply(acc, 1);
    onwards(true);
  }
  __device__ __forceinline__ void finish() {
    productWait<0>();
    release(last);
  }
  // whole makes the products of a tile, and nothing else meanwhile.
  __device__ __forceinline__ void whole(float (&acc)[kOwn]) {
#pragma unroll 1
    for (u32 k = 0; k < steps; k++) {
      if (k > 0) barrierWait(shared(&x.full[stage.at]), stage.phase);
      multiply(acc, k > 0);
      onwards(k > 0);
    }
    finish();
  }
};

// runPipe is a kernel: Run provides rows, by one thread, and adds up products, by those of the groups that multiply.
template <typename Run, typename Task>
__device__ __forceinline__ void runPipe(const Task &job, const TensorMap *mapA, const TensorMap *mapB) {
  extern __shared__ unsigned char room[];
  __shared__ alignas(16) typename Run::Shared x;
  const u32 base = (shared(room) + 1023) & ~1023u, group = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    x.begin();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  clusterSync();
  Run run{{x, base, job.dim / kDepth, group, rankInCluster()}};
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) run.provide(job, mapA, mapB);
    __syncwarp();
    clusterSync(); // nobody tells or writes to a block that has ended
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  run.add(job, base + Run::kStages * Run::kStageBytes);
  clusterSync();
}

// ThreadSums are a thread's sums, in shared memory: its registers are full of products.
struct ThreadSums {
  static __device__ __forceinline__ double *at() {
    __shared__ double all[kSums * kMultiplying];
    return all + threadIdx.x - 128;
  }
  static __device__ __forceinline__ void begin() {
    for (int k = 0; k < kSums; k++) at()[k * kMultiplying] = 0;
  }
  static __device__ __forceinline__ void add(const Totals &t) {
    double own[kSums] = {};
    t.keep(own);
#pragma unroll
    for (int k = 0; k < kSums - 1; k++) at()[k * kMultiplying] += own[k];
  }
  static __device__ __forceinline__ void keep(const Job &job) {
    const u64 thread = u64(blockIdx.x) * kMultiplying + threadIdx.x - 128;
    for (int k = 0; k < kSums; k++) job.sums[thread * kSums + k] = at()[k * kMultiplying];
  }
};

// putAside puts the place-th four of a thread's products into shared memory: what is done with them is too long to be written
// out for each.
template <int kPlace, int kOwn> __device__ __forceinline__ void putAside(const float (&acc)[kOwn], u32 to, u32 place) {
  if constexpr (kPlace < kOwn / 4) {
    if (place == kPlace)
      asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(acc[kPlace * 4]), "f"(acc[kPlace * 4 + 1]), "f"(acc[kPlace * 4 + 2]), "f"(acc[kPlace * 4 + 3]) : "memory");
    else
      putAside<kPlace + 1>(acc, to, place);
  }
}
__device__ __forceinline__ Wide takeBack(u32 from) {
  Wide z;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(z[0]), "=f"(z[1]), "=f"(z[2]), "=f"(z[3]) : "r"(from) : "memory");
  return z;
}
