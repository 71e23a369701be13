// The sums on a Hopper card where both directions share z, exposure is a matter of fields and links are unlikely.
//
// With t = exp(z) and r = 1 − π every sum of a tile is a series in t, whose terms are sums of powers of t and of those times z:
//
//   σ = t/(1 + t),  softplus z = log(1 + t),  −log q = log(1 + t) − log(1 + rt),  ψ = 1/(1 + rt),  τ = rt/(1 + rt).
//
// Four powers are enough where t is at most kUnlikely, which the fourth power tells. Other tiles are added pair by pair.
#include "pairs.cuh"
#include "hopper_wide.cuh"

constexpr u32 kEdge = 1024;

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

struct PowersAdder {
  double sums[kSums] = {};
  u32 row, column;
  __device__ __forceinline__ void begin(const Job &, u32 row_, u32 column_) { row = row_, column = column_; }
  __device__ __forceinline__ void add(const Job &job, const float (&acc)[128], u32 aside) {
    addTile<0>(job, acc, aside);
    const u32 left = (column + 1) * kTile;
    if (left < job.n && !(job.triangle && left >= (row + 1) * kTile)) addTile<64>(job, acc, aside);
  }
  // addTile adds one of the two columns of tiles.
  template <int kFrom> __device__ __forceinline__ void addTile(const Job &job, const float (&acc)[128], u32 aside) {
    Corner c;
    c.find<kTile, kTile>(job, row * kTile, column * kTile + kFrom * 2);
    Totals t;
    bool small = false;
    if (c.whole && c.even) {
      Powers p;
      addPowers<kFrom, 16>(acc, kLog2e * c.offset, p);
      small = __all_sync(0xffffffff, p.enough());
      if (small) p.finish(c, t), t.pairs = 64;
    }
    if (!small) {
      addSlowly<kFrom>(job, c, acc, aside, t);
      addSlowly<kFrom + 32>(job, c, acc, aside, t);
      if (c.whole && c.even && c.kind == 4) t.finish(c.there.x, c.back.x);
    }
    if (c.whole && c.even && (small || c.kind != 2)) t.exposed = float(t.pairs) * (c.there.x + c.back.x);
    t.keep(sums);
    if (small) sums[kSums - 1] += t.pairs;
  }
  template <int kFrom, int kSteps>
  static __device__ __forceinline__ void addPowers(const float (&acc)[128], float shift, Powers &p) {
    if constexpr (kSteps > 0) {
      Wide v;
      EACH v[e] = acc[kFrom + e];
      p.add(v, shift);
      addPowers<kFrom + 4, kSteps - 1>(acc, shift, p);
    }
  }
  // addSlowly adds 32 products, from a place on, by way of shared memory: their code is too long to be written out.
  template <int kFrom>
  static __device__ __forceinline__ void addSlowly(const Job &job, const Corner &c, const float (&acc)[128], u32 aside, Totals &t) {
    const u32 mine = aside + (threadIdx.x - 128) * 16, lane = threadIdx.x % 32, across = c.left + kFrom % 64 * 2 + lane % 4 * 2;
    const u32 down = c.first + (threadIdx.x / 128 - 1) * (kTile / 2) + threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
    for (u32 g = 0; g < 8; g++)
      asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(mine + g * 4096), "f"(acc[kFrom + g * 4]), "f"(acc[kFrom + g * 4 + 1]), "f"(acc[kFrom + g * 4 + 2]), "f"(acc[kFrom + g * 4 + 3]) : "memory");
#pragma unroll 1
    for (u32 g = 0; g < 8; g++) {
      Wide z;
      asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(z[0]), "=f"(z[1]), "=f"(z[2]), "=f"(z[3]) : "r"(mine + g * 4096) : "memory");
      if (!c.whole || !c.even) {
        u32 i[kWide], j[kWide];
        EACH i[e] = down + e / 2 * 8, j[e] = across + g * 8 + e % 2;
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
  }
  __device__ __forceinline__ void keep(const Job &job) {
    const u64 thread = u64(blockIdx.x) * 256 + threadIdx.x - 128;
    for (int k = 0; k < kSums; k++) job.sums[thread * kSums + k] = sums[k];
  }
};

// PowersWork is the tiles of a rectangle.
struct PowersWork {
  typedef Job Task;
  typedef PowersAdder Adder;
  static __device__ __forceinline__ bool tileAt(const Job &job, u64 number, u32 &row, u32 &column) {
    const bool is = ::tileAt<kEdge, kTile, 2 * kTile>(job, number, row, column);
    column *= 2;
    return is;
  }
};

extern "C" __global__ void __launch_bounds__(kThreads, 1)
sumPowers_bfloat16(Job job, const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b) { wideTiles<PowersWork>(job, &a, &b); }
