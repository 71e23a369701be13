// What one pair adds to the sums, and which pairs a tile has.
//
// With z the logit of ŷ, u = exp(−|z|) and π the propensity, an unlinked pair has
//
//   softplus(z) = max(z, 0) + log(1 + u)          the loss of "no"
//   −log q,  q = 1 − π·σ(z) = σ(−z) + (1 − π)·σ(z)  the likelihood
//   ψ = σ(−z)/q,  τ = (1 − π)·σ(z)/q               the two masses
//
// None of them subtracts numbers that are nearly equal, so that sums over rare links are as exact as others.

typedef unsigned int u32;
typedef unsigned long long u64;

// Job is what a launch is about. Its layout is that of gpu.job. Lists are in the order of fields, and within a field of
// keys. π as the risks see it is at least the floor.
struct Job {
  const float4 *table;       // by the fields of source and target: the offset of z, s; then π, 1 − π, and both as the risks see them
  const int2 *sources;       // key, field
  const int2 *targets;
  const float4 *sourceTerms; // of z; of s, as a source and as a target
  const float2 *targetTerms; // of s, as a source and as a target
  double *sums;              // of every thread
  u64 from, to;              // tiles
  u32 m, n;                  // sources, targets
  u32 dim;                   // numbers of a row, padded
  u32 fields;
  u32 triangle;              // both lists are one, and of its pairs only those with i > j are looked at
  u32 both;                  // a pair stands for both directions
  u32 ordered;               // 0: a source and a target of the same key are no pair; 1: only targets of a lower key are
  u32 dense;                 // s has terms beyond those of fields
  float gamma;               // of z in s
  float floor;               // of π, as the risks see it
};

// How many sums a thread keeps.
constexpr int kSums = 6;
constexpr float kLn2 = 0.6931471805599453f, kLog2e = 1.4426950408889634f;

__device__ __forceinline__ float exp2Fast(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ __forceinline__ float log2Fast(float x) { float y; asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ __forceinline__ float inverse(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }

// log(1 + u) for u from 0 to 1, within 4e-8 of itself.
__device__ __forceinline__ float log1pUnit(float u) {
  float p = 0.00512610212f;
  p = fmaf(p, u, -0.0290740646f);
  p = fmaf(p, u, 0.0775160866f);
  p = fmaf(p, u, -0.136022476f);
  p = fmaf(p, u, 0.190768807f);
  p = fmaf(p, u, -0.24835399f);
  p = fmaf(p, u, 0.333181217f);
  p = fmaf(p, u, -0.49999445f);
  p = fmaf(p, u, 0.999999966f);
  return p * u;
}

// −log(1 − x), given x and q = 1 − x: of x up to kSmall by a polynomial, as the logarithm knows nothing of small ones.
constexpr float kSmall = .25f;

template <bool kAll> __device__ __forceinline__ float negLog(float x, float q) {
  float p = 0.338643635f;
  p = fmaf(p, x, 0.144631154f);
  p = fmaf(p, x, 0.257644195f);
  p = fmaf(p, x, 0.332870349f);
  p = fmaf(p, x, 0.500010081f);
  p = fmaf(p, x, 0.999999965f);
  p *= x;
  return kAll && x > kSmall ? -kLn2 * log2Fast(q) : p;
}

// What both directions of a pair share.
struct Pair {
  float sigma, other;   // σ(z), σ(−z)
  float no, yes;        // softplus(z), softplus(−z)
  __device__ __forceinline__ explicit Pair(float z) {
    const float u = exp2Fast(-kLog2e * fabsf(z)), r = inverse(1 + u), ur = u * r, l = log1pUnit(u);
    sigma = z >= 0 ? r : ur;
    other = z >= 0 ? ur : r;
    no = fmaxf(z, 0.f) + l;
    yes = fmaxf(-z, 0.f) + l;
  }
};

// Exposure is π, 1 − π, and both as the risks see them: a float4 of a table.
struct Exposure {
  float pi, rest, seen, hidden;
  __device__ __forceinline__ explicit Exposure(const float4 &v) : pi(v.x), rest(v.y), seen(v.z), hidden(v.w) {}
  // of a logit
  __device__ __forceinline__ Exposure(float s, float floor) {
    const float u = exp2Fast(-kLog2e * fabsf(s)), r = inverse(1 + u), ur = u * r;
    pi = s >= 0 ? r : ur;
    rest = s >= 0 ? ur : r;
    seen = fmaxf(pi, floor);
    hidden = fminf(rest, 1 - floor);
  }
};

// Totals of a thread over one tile: Σσ, Σ softplus z, Σ −log q, Σψ softplus z, Στ softplus −z, and how many pairs.
struct Totals {
  float link = 0, no = 0, nll = 0, psi = 0, tau = 0;
  u32 pairs = 0;
  // shared adds what both directions share
  __device__ __forceinline__ void shared(const Pair &p, float w) {
    link = fmaf(p.sigma, w, link);
    no = fmaf(p.no, w, no);
  }
  // one adds a direction; w is 0 for what is no pair
  __device__ __forceinline__ void one(const Pair &p, const Exposure &e, float w) {
    const float q = fmaf(e.rest, p.sigma, p.other), masked = e.hidden * p.sigma, r = inverse(masked + p.other) * w;
    nll = fmaf(negLog<true>(e.pi * p.sigma, q), w, nll);
    psi = fmaf(p.other * r, p.no, psi);
    tau = fmaf(masked * r, p.yes, tau);
  }
  // two adds both directions, where the risks see π as it is. Without kAll both π are so small that πσ together is.
  template <bool kAll> __device__ __forceinline__ void two(const Pair &p, float pi, float rest, float piBack, float restBack) {
    const float masked = rest * p.sigma, maskedBack = restBack * p.sigma, q = masked + p.other, qBack = maskedBack + p.other;
    const float x = pi * p.sigma, xBack = piBack * p.sigma, r = inverse(q), rBack = inverse(qBack);
    nll += kAll ? negLog<true>(x, q) + negLog<true>(xBack, qBack) : negLog<false>(fmaf(-x, xBack, x + xBack), 0);
    psi = fmaf(p.other * (r + rBack), p.no, psi);
    tau = fmaf(fmaf(masked, r, maskedBack * rBack), p.yes, tau);
  }
  // keep adds the totals to a thread's sums
  __device__ __forceinline__ void keep(double (&sums)[kSums]) const {
    sums[0] += link;
    sums[1] += no;
    sums[2] += nll;
    sums[3] += psi;
    sums[4] += tau;
    sums[5] += pairs;
  }
};

// Tiles are numbered in squares of kSquare × kSquare, so that the rows of those that are computed at the same time are few.
constexpr u32 kSquare = 8;

// tileAt returns the row and column of a tile, and false for one that is not there.
__device__ __forceinline__ bool tileAt(const Job &job, u64 number, u32 tile, u32 &row, u32 &column) {
  const u64 square = number / (kSquare * kSquare);
  const u32 within = u32(number % (kSquare * kSquare));
  const u32 rows = (job.m + tile - 1) / tile, columns = (job.n + tile - 1) / tile;
  u32 r, c;
  if (job.triangle) {
    r = u32((sqrt(8. * double(square) + 1) - 1) / 2);
    while (u64(r) * (r + 1) / 2 > square) r--;
    while (u64(r + 1) * (r + 2) / 2 <= square) r++;
    c = u32(square - u64(r) * (r + 1) / 2);
  } else {
    const u32 across = (columns + kSquare - 1) / kSquare;
    r = u32(square / across);
    c = u32(square % across);
  }
  row = r * kSquare + within / kSquare;
  column = c * kSquare + within % kSquare;
  return row < rows && column < columns && !(job.triangle && column > row);
}

// before is the order of lists.
__device__ __forceinline__ bool before(const int2 &a, const int2 &b) { return a.y < b.y || (a.y == b.y && a.x < b.x); }

// Corner is what is known of a tile beforehand.
struct Corner {
  u32 first, left;    // its first source and target
  bool whole;         // all of its pairs are pairs: none is beyond an end, on the diagonal or out of order
  bool even;          // it has one field on each side
  float offset;       // of z, if it is even
  float4 there, back; // π and the rest of both directions, if it is even
  float sThere, sBack;
  int kind;           // how its pairs are added, if it is whole and even
  template <int kRows, int kColumns> __device__ __forceinline__ void find(const Job &job, u32 row, u32 column) {
    first = row * kRows;
    left = column * kColumns;
    const u32 last = min(first + kRows, job.m) - 1, right = min(left + kColumns, job.n) - 1;
    const int2 a = job.sources[first], b = job.sources[last], d = job.targets[left], e = job.targets[right];
    const bool inside = first + kRows <= job.m && left + kColumns <= job.n;
    if (job.triangle) whole = inside && first >= left + kColumns;
    else whole = inside && !job.ordered && (before(b, d) || before(e, a));
    even = a.y == b.y && d.y == e.y;
    const u32 at = 2 * (a.y * job.fields + d.y), returns = 2 * (d.y * job.fields + a.y);
    const float4 own = job.table[at];
    offset = own.x;
    sThere = own.y;
    sBack = job.table[returns].y;
    there = job.table[at + 1];
    back = job.table[returns + 1];
    const bool floored = job.dense ? job.floor > 0 : there.x != there.z || back.x != back.z;
    kind = !job.both || floored ? 2 : job.dense || there.x + back.x > kSmall ? 1 : 0;
  }
};

// addEven adds a pair of a tile that is whole and even, where π is a matter of fields. kKind: 0 where both π are small,
// 1 where they are not, 2 where the risks see others or there is one direction.
template <int kKind> __device__ __forceinline__ void addEven(const Job &job, const Corner &c, float z, Totals &t) {
  const Pair p(z);
  t.shared(p, 1);
  if (kKind < 2) {
    t.two<kKind == 1>(p, c.there.x, c.there.y, c.back.x, c.back.y);
    return;
  }
  t.one(p, Exposure(c.there), 1);
  if (job.both) t.one(p, Exposure(c.back), 1);
}

// addDense adds a pair whose π has terms of its own, of a tile that is whole and even. kKind: 1 where the risks see π as
// it is and there are two directions, else 2.
template <int kKind>
__device__ __forceinline__ void addDense(const Job &job, const Corner &c, float z, const float4 &source, const float2 &target,
                                         Totals &t) {
  const Pair p(z);
  t.shared(p, 1);
  const Exposure there(fmaf(job.gamma, z, c.sThere) + source.y + target.y, job.floor);
  if (kKind == 2) {
    t.one(p, there, 1);
    if (!job.both) return;
  }
  const Exposure back(fmaf(job.gamma, z, c.sBack) + target.x + source.z, job.floor);
  if (kKind == 2) t.one(p, back, 1);
  else t.two<true>(p, there.pi, there.rest, back.pi, back.rest);
}

// addAny adds what may be a pair: of source i and target j, which may be beyond the ends.
template <bool kDense>
__device__ __forceinline__ void addAny(const Job &job, float product, u32 i, u32 j, Totals &t) {
  const u32 from = min(i, job.m - 1), to = min(j, job.n - 1);
  const int2 source = job.sources[from], target = job.targets[to];
  bool pair = i < job.m && j < job.n;
  if (job.triangle) pair = pair && i > j;
  else pair = pair && (job.ordered ? target.x < source.x : target.x != source.x);
  t.pairs += pair;
  const float w = pair ? 1.f : 0.f;
  const u32 at = 2 * (source.y * job.fields + target.y), returns = 2 * (target.y * job.fields + source.y);
  const float4 own = job.table[at], terms = job.sourceTerms[from];
  const float z = product + terms.x + own.x;
  const Pair p(z);
  t.shared(p, w);
  if (kDense) {
    const float2 other = job.targetTerms[to];
    t.one(p, Exposure(fmaf(job.gamma, z, own.y) + terms.y + other.y, job.floor), w);
    if (job.both) t.one(p, Exposure(fmaf(job.gamma, z, job.table[returns].y) + other.x + terms.z, job.floor), w);
    return;
  }
  t.one(p, Exposure(job.table[at + 1]), w);
  if (job.both) t.one(p, Exposure(job.table[returns + 1]), w);
}
