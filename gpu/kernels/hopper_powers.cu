// The sums on a Hopper card where both directions share z, exposure is a matter of fields and links are unlikely.
//
// With t = exp(z) and r = 1 − π every sum of a tile is a series in t, whose terms are sums of powers of t and of those times z:
//
//   σ = t/(1 + t),  softplus z = log(1 + t),  −log q = log(1 + t) − log(1 + rt),  ψ = 1/(1 + rt),  τ = rt/(1 + rt).
//
// Four powers are enough where t is at most kUnlikely, which the fourth power tells. Other tiles are added pair by pair.
#include "pairs.cuh"
#include "hopper_overlap.cuh"

constexpr u32 kEdge = 3072;

// Powers are sums of a thread over one tile: of the powers of t, and of those times the products.
struct Powers {
  float t[4] = {}, z[4] = {};
  __device__ __forceinline__ void add(const Wide &product, float shift) {
    Wide one, two, by, three;
    EACH one[e] = exp2Fast(fmaf(product[e], kLog2e, shift));
    EACH two[e] = one[e] * one[e];
    EACH by[e] = one[e] * product[e];
    EACH three[e] = two[e] * by[e];
    t[0] += (one[0] + one[1]) + (one[2] + one[3]);
    t[1] += (two[0] + two[1]) + (two[2] + two[3]);
    z[0] += (by[0] + by[1]) + (by[2] + by[3]);
    z[2] += (three[0] + three[1]) + (three[2] + three[3]);
    EACH t[2] = fmaf(two[e], one[e], t[2]);
    EACH t[3] = fmaf(two[e], two[e], t[3]);
    EACH z[1] = fmaf(by[e], one[e], z[1]);
    EACH z[3] = fmaf(three[e], one[e], z[3]);
  }
  __device__ __forceinline__ bool enough() const { return t[3] <= kUnlikely * kUnlikely * kUnlikely * kUnlikely; }
  // direction adds what depends on π, which is v.x, 1 − π, which is v.y, and that as the risks see it, v.w.
  __device__ __forceinline__ void direction(const float4 &v, Totals &to) const {
    const float r = v.y, h = v.w;
    const float second = 1 + r, third = fmaf(r, second, 1.f), fourth = fmaf(r, third, 1.f); // (1 − rᵏ)/π
    to.nll += v.x * (t[0] - second / 2 * t[1] + third / 3 * t[2] - fourth / 4 * t[3]);
    const float a2 = .5f + h, a3 = fmaf(h, a2, 1 / 3.f), a4 = fmaf(h, a3, .25f); // of log(1 + t)/(1 + ht)
    to.psi += t[0] - a2 * t[1] + a3 * t[2] - a4 * t[3];
    to.tau += h * (t[1] - a2 * t[2] + a3 * t[3] - z[0] + h * (z[1] - h * (z[2] - h * z[3])));
  }
  __device__ __forceinline__ void finish(const Corner &c, Totals &to) {
#pragma unroll
    for (int k = 0; k < 4; k++) z[k] = fmaf(c.offset, t[k], z[k]);
    to.link += t[0] - t[1] + t[2] - t[3];
    to.no += t[0] - t[1] / 2 + t[2] / 3 - t[3] / 4;
    direction(c.there, to);
    direction(c.back, to);
  }
};

struct PowersShape {
  static constexpr u32 kAcross = 192;
  static constexpr int kStages = 5;
};

// PowersAdder adds up the tiles of a warp that are whole and even and whose links are unlikely.
struct PowersAdder {
  static constexpr u32 kAcross = PowersShape::kAcross, kOwn = kAcross / 2;
  Powers p;
  u32 row, column;
  float shift;
  __device__ __forceinline__ void next(const Message &m) { row = m.row, column = m.column; }
  __device__ __forceinline__ void begin(const Job &job) {
    const u32 source = job.sources[min(row * kTile, job.m - 1)].y, target = job.targets[column * kAcross].y;
    shift = kLog2e * job.table[2 * (source * job.fields + target)].x;
    p = Powers();
  }
  template <int kFrom, int kFours> __device__ __forceinline__ void slice(const float (&acc)[kOwn]) {
    if constexpr (kFours > 0) {
      Wide v;
      EACH v[e] = acc[kFrom + e];
      p.add(v, shift);
      slice<kFrom + 4, kFours - 1>(acc);
    }
  }
  // finish adds the tile, unless it is another kind of tile.
  __device__ __forceinline__ bool finish(const Job &job) {
    Corner c;
    c.find<kTile, kAcross>(job, row * kTile, column * kAcross);
    if (!(c.whole && c.even) || !__all_sync(0xffffffff, p.enough())) return false;
    Totals t;
    p.finish(c, t);
    t.pairs = kOwn;
    t.exposed = float(kOwn) * (c.there.x + c.back.x);
    ThreadSums::add(t);
    ThreadSums::at()[(kSums - 1) * kMultiplying] += kOwn;
    return true;
  }
  // slowly adds a tile of any kind.
  static __device__ __forceinline__ void slowly(const Job &job, const Message &m, const float (&acc)[kOwn], u32 mine) {
    Corner c;
    c.find<kTile, kAcross>(job, m.row * kTile, m.column * kAcross);
    Totals t;
    const u32 lane = threadIdx.x % 32, down = c.first + (threadIdx.x / 32 - 4) * 16 + lane / 4, across = c.left + lane % 4 * 2;
#pragma unroll 1
    for (u32 place = 0; place < kOwn / 4; place++) {
      putAside<0>(acc, mine, place);
      Wide z = takeBack(mine);
      if (!c.whole || !c.even) {
        u32 i[kWide], j[kWide];
        EACH i[e] = down + e / 2 * 8, j[e] = across + place * 8 + e % 2;
        addAny<false>(job, z, i, j, t);
        continue;
      }
      EACH z[e] += c.offset;
      if (c.kind == 4) t.rare(z);
      else if (c.kind == 0) addEven<0>(job, c, z, t);
      else if (c.kind == 1) addEven<1>(job, c, z, t);
      else addEven<2>(job, c, z, t);
      t.pairs += kWide;
    }
    if (c.whole && c.even && c.kind == 4) t.finish(c.there.x, c.back.x);
    if (c.whole && c.even && c.kind != 2) t.exposed = float(t.pairs) * (c.there.x + c.back.x);
    ThreadSums::add(t);
  }
};

// What a warp cannot add by powers it puts off: after kPhase tiles those that any warp has put off are multiplied again, and
// added at leisure.
constexpr u32 kPhase = 384;
struct PowersShared : Exchange<PowersShape::kStages> {
  u64 done;
  u32 off[2][kPhase / 32][8 * kShare]; // which tiles the warps of all blocks have put off
  __device__ __forceinline__ void begin() {
    Exchange<PowersShape::kStages>::begin();
    barrierInit(shared(&done), 8 * kShare);
  }
};

// PowersPanel is the tiles of a rectangle; the work on one is cut into kSlices, of which there is one after each step.
template <int kSlices> struct PowersPanel : Pipe<PowersShape> {
  typedef PowersShared Shared;
  u32 noted = 0;
  __device__ __forceinline__ PowersShared &room() { return static_cast<PowersShared &>(x); }

  // putOff says which of 32 tiles any warp put off.
  __device__ __forceinline__ u32 putOff(u32 parity, u32 place) {
    u32 any = 0;
    for (u32 k = 0; k < 8 * kShare; k++) any |= reinterpret_cast<volatile u32 *>(room().off[parity][place / 32])[k];
    return any;
  }
  __device__ __forceinline__ void provide(const Job &job, const TensorMap *mapA, const TensorMap *mapB) {
    const u32 clusters = gridDim.x / kShare;
    Walk<kEdge, kAcross> walk;
    walk.begin(job, job.from + blockIdx.x / kShare);
    for (u32 parity = 0;; parity ^= 1) {
      Walk<kEdge, kAcross> again = walk;
      Message m, last;
      m.kind = kNew, m.place = 0;
      for (; walk.number < job.to && m.place < kPhase; walk.next(job, clusters)) {
        if (!walk.at(job, rank, m.row, m.column)) continue;
        send(m, mapA, mapB);
        m.place++;
        last = m;
      }
      if (m.place == 0) break;
      last.kind = kFlush;
      send(last, mapA, mapB);
      waitForAll(shared(&room().done), parity);
      m.kind = kAgain;
      u32 off = 0;
      for (m.place = 0; m.place < last.place; again.next(job, clusters)) {
        if (!again.at(job, rank, m.row, m.column)) continue;
        if (m.place % 32 == 0) off = putOff(parity, m.place);
        if (off >> m.place % 32 & 1) send(m, mapA, mapB);
        m.place++;
      }
      signal(kPhaseEnds);
    }
    signal(kEnd);
  }

  // own is where a warp notes what it has put off.
  __device__ __forceinline__ u32 &own(u32 parity, u32 place) { return room().off[parity][place / 32][rank * 8 + threadIdx.x / 32 - 4]; }
  // note tells all blocks whether a warp puts the tile before that of the message off, 32 at a time.
  __device__ __forceinline__ void note(u32 parity, const Message &m, bool off) {
    const u32 place = m.place - 1, lane = threadIdx.x % 32;
    noted |= u32(off) << place % 32;
    if (place % 32 < 31 && m.kind != kFlush) return;
    if (lane < kShare)
      asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(inBlock(shared(&own(parity, place)), lane)), "r"(noted) : "memory");
    noted = 0;
  }
  // turn makes the products of a tile, whose first rows are there, and adds up those of the one before.
  __device__ __forceinline__ void turn(const Job &job, PowersAdder &adder, float (&now)[kOwn], const float (&old)[kOwn]) {
    multiply(now, 0);
    last = stage.at;
    stage.next();
    adder.begin(job);
    sliced<0>(adder, now, old);
#pragma unroll 1
    for (u32 k = kSlices; k < steps; k++) step(now);
    finish();
  }
  template <int kSlice> __device__ __forceinline__ void sliced(PowersAdder &adder, float (&now)[kOwn], const float (&old)[kOwn]) {
    if constexpr (kSlice < kSlices) {
      if (kSlice > 0) step(now);
      adder.template slice<kSlice *(kOwn / kSlices), kOwn / kSlices / 4>(old);
      sliced<kSlice + 1>(adder, now, old);
    }
  }
  __device__ __forceinline__ void add(const Job &job, u32 aside) {
    float a[kOwn], b[kOwn];
    PowersAdder adder;
    ThreadSums::begin();
    u32 parity = 0;
    Message m = hear();
    while (m.kind != kEnd) {
      whole(a);
      while (true) {
        adder.next(m);
        m = hear();
        turn(job, adder, b, a);
        note(parity, m, !adder.finish(job));
        if (m.kind == kFlush) break;
        adder.next(m);
        m = hear();
        turn(job, adder, a, b);
        note(parity, m, !adder.finish(job));
        if (m.kind == kFlush) break;
      }
      asm volatile("fence.acq_rel.cluster;" ::: "memory");
      __syncwarp();
      if (threadIdx.x % 32 < kShare) arriveThere(inBlock(shared(&room().done), threadIdx.x % 32));
      for (m = hear(); m.kind == kAgain; m = hear()) {
        whole(a);
        if (own(parity, m.place) >> m.place % 32 & 1) adder.slowly(job, m, a, aside + (threadIdx.x - 128) * 16);
      }
      asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory"); // all warps have heard it
      release(stage.at);
      stage.next();
      parity ^= 1;
      m = hear();
    }
    ThreadSums::keep(job);
  }
};

#define KERNEL(slices)                                                                                                   \
  extern "C" __global__ void __cluster_dims__(kShare, 1, 1) __launch_bounds__(kThreads, 1)                             \
  sumPowers##slices##_bfloat16(Job job, const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b) {    \
    runPipe<PowersPanel<slices>>(job, &a, &b);                                                                           \
  }
KERNEL(12)
KERNEL(4)
KERNEL(1)
