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
constexpr int kSums = 8; // the last is of how many pairs powers were enough; see hopper_powers.cu
constexpr float kLn2 = 0.6931471805599453f, kLog2e = 1.4426950408889634f;

__device__ __forceinline__ float exp2Fast(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ __forceinline__ float log2Fast(float x) { float y; asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ __forceinline__ float inverse(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }

// Pairs are taken kWide at a time, step by step: one after the other they would wait for each step to end.
constexpr int kWide = 4;
#define EACH _Pragma("unroll") for (int e = 0; e < kWide; e++)
struct Wide {
  float v[kWide];
  __device__ __forceinline__ float &operator[](int e) { return v[e]; }
  __device__ __forceinline__ const float &operator[](int e) const { return v[e]; }
};

// horner sets p to p·x + c.
__device__ __forceinline__ void horner(Wide &p, const Wide &x, float c) { EACH p[e] = fmaf(p[e], x[e], c); }

// log(1 + u) for u from 0 to 1, within 4e-8 of itself.
__device__ __forceinline__ Wide log1pUnit(const Wide &u) {
  Wide p;
  EACH p[e] = fmaf(0.00512610212f, u[e], -0.0290740646f);
  horner(p, u, 0.0775160866f);
  horner(p, u, -0.136022476f);
  horner(p, u, 0.190768807f);
  horner(p, u, -0.24835399f);
  horner(p, u, 0.333181217f);
  horner(p, u, -0.49999445f);
  horner(p, u, 0.999999966f);
  EACH p[e] *= u[e];
  return p;
}

// −log(1 − x), given x and q = 1 − x: of x up to kSmall by a polynomial, as the logarithm knows nothing of small ones.
constexpr float kSmall = .25f;

__device__ __forceinline__ float negLogSmall(float x) {
  float p = fmaf(0.338643635f, x, 0.144631154f);
  p = fmaf(p, x, 0.257644195f);
  p = fmaf(p, x, 0.332870349f);
  p = fmaf(p, x, 0.500010081f);
  p = fmaf(p, x, 0.999999965f);
  return p * x;
}
__device__ __forceinline__ float negLogAny(float x, float q) { return x > kSmall ? -kLn2 * log2Fast(q) : negLogSmall(x); }

// −log(1 − x) for x from 0 to 1/2, within 2e-7 of itself.
__device__ __forceinline__ Wide negLogHalf(const Wide &x) {
  Wide p;
  EACH p[e] = fmaf(1.15861404f, x[e], -1.03603899f);
  horner(p, x, 0.754588425f);
  horner(p, x, 0.0483580567f);
  horner(p, x, 0.270477027f);
  horner(p, x, 0.332006842f);
  horner(p, x, 0.500032187f);
  horner(p, x, 0.999999881f);
  EACH p[e] *= x[e];
  return p;
}

// kRare is the π up to which two powers of it are enough.
constexpr float kRare = 5e-4f;

// sigmoids sets σ(z), σ(−z) and exp(−|z|).
__device__ __forceinline__ void sigmoids(const Wide &z, Wide &sigma, Wide &other, Wide &u) {
  Wide r;
  EACH u[e] = exp2Fast(-kLog2e * fabsf(z[e]));
  EACH r[e] = inverse(1 + u[e]);
  EACH {
    const float ur = u[e] * r[e];
    sigma[e] = z[e] >= 0 ? r[e] : ur;
    other[e] = z[e] >= 0 ? ur : r[e];
  }
}

// What both directions of pairs share.
struct Pairs {
  Wide sigma, other; // σ(z), σ(−z)
  Wide no, yes;      // softplus(z), softplus(−z)
  __device__ __forceinline__ explicit Pairs(const Wide &z) {
    Wide u;
    sigmoids(z, sigma, other, u);
    const Wide l = log1pUnit(u);
    EACH no[e] = fmaxf(z[e], 0.f) + l[e];
    EACH yes[e] = fmaxf(-z[e], 0.f) + l[e];
  }
};

// Exposure is π, 1 − π, and what that is as the risks see it.
struct Exposure {
  Wide pi, rest, hidden;
  __device__ __forceinline__ Exposure() {}
  // of one entry of the table
  __device__ __forceinline__ explicit Exposure(const float4 &v) {
    EACH pi[e] = v.x, rest[e] = v.y, hidden[e] = v.w;
  }
  // of logits
  __device__ __forceinline__ Exposure(const Wide &s, float floor) {
    Wide u;
    sigmoids(s, pi, rest, u);
    EACH rest[e] = fmaxf(rest[e], 1e-18f);
    EACH hidden[e] = fminf(rest[e], 1 - floor);
  }
};

// exposures sets both directions' π and 1 − π by their logits, with one reciprocal. Logits below −41 are as good as that.
__device__ __forceinline__ void exposures(const Wide &s, const Wide &sBack, Exposure &x, Exposure &y) {
  Wide a, b, r;
  EACH a[e] = exp2Fast(fminf(-kLog2e * s[e], 60.f));
  EACH b[e] = exp2Fast(fminf(-kLog2e * sBack[e], 60.f));
  EACH r[e] = inverse((1 + a[e]) * (1 + b[e]));
  EACH x.pi[e] = fmaf(r[e], b[e], r[e]), y.pi[e] = fmaf(r[e], a[e], r[e]);
  EACH x.rest[e] = a[e] * x.pi[e], y.rest[e] = b[e] * y.pi[e];
}

// kUnlikely is the exp(z) up to which a few of its powers are enough; kUnlikelyLog is its z.
constexpr float kUnlikely = .02f, kUnlikelyLog = -3.912024f;

// Totals of a thread over one tile: Σσ, Σ softplus z, Σ −log q, Σψ softplus z, Στ softplus −z, Σπ, and how many pairs.
struct Totals {
  float link = 0, no = 0, nll = 0, psi = 0, tau = 0, exposed = 0;
  u32 pairs = 0;
  // Of rare exposure Σσ², Σσ(−z) softplus z, Σσ softplus −z, and the last two times σ
  float squares = 0, hidden = 0, shown = 0, hiddenMore = 0, shownMore = 0;
  // rare adds both directions, where both π are rare: see finish
  __device__ __forceinline__ void rare(const Wide &z) {
    Wide u, sigma, other, l;
    EACH u[e] = exp2Fast(fminf(-kLog2e * z[e], 100.f));
    EACH sigma[e] = inverse(1 + u[e]);
    EACH other[e] = u[e] * sigma[e];
    EACH l[e] = fminf(sigma[e], other[e]);
    l = negLogHalf(l);
    EACH u[e] = fmaxf(z[e], 0.f) + l[e];
    EACH l[e] += fmaxf(-z[e], 0.f);
    link += (sigma[0] + sigma[1]) + (sigma[2] + sigma[3]);
    no += (u[0] + u[1]) + (u[2] + u[3]);
    EACH squares = fmaf(sigma[e], sigma[e], squares);
    EACH other[e] *= u[e];
    EACH l[e] *= sigma[e];
    hidden += (other[0] + other[1]) + (other[2] + other[3]);
    shown += (l[0] + l[1]) + (l[2] + l[3]);
    EACH hiddenMore = fmaf(other[e], sigma[e], hiddenMore);
    EACH shownMore = fmaf(l[e], sigma[e], shownMore);
  }
  // finish adds what rare exposure makes of these, given both π: 1/q is 1 + πσ, and −log q is πσ + (πσ)²/2
  __device__ __forceinline__ void finish(float a, float b) {
    const float one = a + b, two = a * a + b * b;
    nll += fmaf(one, link, two / 2 * squares);
    psi += fmaf(one, hiddenMore, 2 * hidden);
    tau += fmaf(2 - one, shown, (one - two) * shownMore);
  }
  // shared adds what both directions share; w is 0 for what is no pair
  __device__ __forceinline__ void shared(const Pairs &p, const Wide &w) {
    EACH link = fmaf(p.sigma[e], w[e], link);
    EACH no = fmaf(p.no[e], w[e], no);
  }
  __device__ __forceinline__ void shared(const Pairs &p) {
    link += (p.sigma[0] + p.sigma[1]) + (p.sigma[2] + p.sigma[3]);
    no += (p.no[0] + p.no[1]) + (p.no[2] + p.no[3]);
  }
  // one adds a direction
  __device__ __forceinline__ void one(const Pairs &p, const Exposure &x, const Wide &w) {
    Wide q, masked, r, seen;
    EACH q[e] = fmaf(x.rest[e], p.sigma[e], p.other[e]);
    EACH masked[e] = x.hidden[e] * p.sigma[e];
    EACH r[e] = inverse(masked[e] + p.other[e]) * w[e];
    EACH seen[e] = x.pi[e] * p.sigma[e];
    EACH nll = fmaf(negLogAny(seen[e], q[e]), w[e], nll);
    EACH exposed = fmaf(x.pi[e], w[e], exposed);
    EACH psi = fmaf(p.other[e] * r[e], p.no[e], psi);
    EACH tau = fmaf(masked[e] * r[e], p.yes[e], tau);
  }
  // two adds both directions, where the risks see π as it is. kKind says what is known of π; see Corner.
  template <int kKind> __device__ __forceinline__ void two(const Pairs &p, const Exposure &x, const Exposure &y) {
    Wide masked, maskedBack, q, qBack, seen, seenBack, r;
    EACH masked[e] = x.rest[e] * p.sigma[e];
    EACH maskedBack[e] = y.rest[e] * p.sigma[e];
    EACH q[e] = masked[e] + p.other[e];
    EACH qBack[e] = maskedBack[e] + p.other[e];
    EACH seen[e] = x.pi[e] * p.sigma[e];
    EACH seenBack[e] = y.pi[e] * p.sigma[e];
    EACH seen[e] = fmaf(-seen[e], seenBack[e], seen[e] + seenBack[e]); // 1 − q·qBack
    Wide both;
    EACH both[e] = q[e] * qBack[e];
    EACH r[e] = inverse(both[e]);
    if (kKind == 0) { // all of them together are small
      const float a = fmaf(-seen[0], seen[1], seen[0] + seen[1]), b = fmaf(-seen[2], seen[3], seen[2] + seen[3]);
      nll += negLogSmall(fmaf(-a, b, a + b));
    } else if (kKind == 3) {
      EACH nll += negLogAny(seen[e], both[e]);
      EACH exposed += x.pi[e] + y.pi[e];
    } else { // two by two
      const float a = fmaf(-seen[0], seen[1], seen[0] + seen[1]), b = fmaf(-seen[2], seen[3], seen[2] + seen[3]);
      nll += negLogAny(a, both[0] * both[1]) + negLogAny(b, both[2] * both[3]);
    }
    EACH maskedBack[e] *= q[e];
    EACH maskedBack[e] = fmaf(masked[e], qBack[e], maskedBack[e]);
    EACH q[e] = (q[e] + qBack[e]) * p.other[e];
    EACH q[e] *= r[e];
    EACH maskedBack[e] *= r[e];
    EACH psi = fmaf(q[e], p.no[e], psi);
    EACH tau = fmaf(maskedBack[e], p.yes[e], tau);
  }
  // unlikely adds both directions, where all z are at most kUnlikelyLog and the risks see π as it is. With t = exp(z) and
  // r = 1 − π, ψ = 1/(1 + rt) and τ = rt/(1 + rt).
  __device__ __forceinline__ void unlikely(const Wide &z, const Exposure &x, const Exposure &y) {
    Wide power, l, sigma, seen, m, n, r;
    EACH power[e] = exp2Fast(kLog2e * z[e]);
    EACH sigma[e] = power[e] * inverse(1 + power[e]);
    EACH l[e] = fmaf(power[e], -.25f, 1 / 3.f);
    horner(l, power, -.5f);
    horner(l, power, 1.f);
    EACH l[e] *= power[e];
    EACH seen[e] = x.pi[e] * sigma[e] + y.pi[e] * fmaf(-x.pi[e] * sigma[e], sigma[e], sigma[e]); // 1 − q·qBack
    const float a = fmaf(-seen[0], seen[1], seen[0] + seen[1]), b = fmaf(-seen[2], seen[3], seen[2] + seen[3]);
    nll += negLogSmall(fmaf(-a, b, a + b));
    link += (sigma[0] + sigma[1]) + (sigma[2] + sigma[3]);
    no += (l[0] + l[1]) + (l[2] + l[3]);
    EACH exposed += x.pi[e] + y.pi[e];
    EACH m[e] = fmaf(x.rest[e], power[e], 1.f), n[e] = fmaf(y.rest[e], power[e], 1.f);
    EACH r[e] = inverse(m[e] * n[e]);
    EACH sigma[e] = (m[e] + n[e]) * r[e];                                                     // ψ of both
    EACH r[e] *= power[e] * fmaf(x.rest[e], n[e], y.rest[e] * m[e]);                          // τ of both
    EACH psi = fmaf(sigma[e], l[e], psi);
    EACH tau = fmaf(r[e], l[e] - z[e], tau);
  }
  // keep adds the totals to a thread's sums
  __device__ __forceinline__ void keep(double (&sums)[kSums]) const {
    sums[0] += link;
    sums[1] += no;
    sums[2] += nll;
    sums[3] += psi;
    sums[4] += tau;
    sums[5] += pairs;
    sums[6] += exposed;
  }
};

// squareAt sets the row and column of a square, of which there are so many beside one another.
template <typename Task> __device__ __forceinline__ void squareAt(const Task &job, u64 square, u32 across, u32 &r, u32 &c) {
  if (job.triangle) {
    r = u32((sqrt(8. * double(square) + 1) - 1) / 2);
    while (u64(r) * (r + 1) / 2 > square) r--;
    while (u64(r + 1) * (r + 2) / 2 <= square) r++;
    c = u32(square - u64(r) * (r + 1) / 2);
  } else {
    r = u32(square / across);
    c = u32(square % across);
  }
}

// Tiles are numbered in squares of kEdge × kEdge nodes, so that the rows of those that are computed at the same time are
// few. tileAt returns the row and column of a tile of kRows × kColumns, and false for one that has no pairs.
template <u32 kEdge, u32 kRows, u32 kColumns, typename Task>
__device__ __forceinline__ bool tileAt(const Task &job, u64 number, u32 &row, u32 &column) {
  constexpr u32 kDown = kEdge / kRows, kAcross = kEdge / kColumns;
  const u64 square = number / (kDown * kAcross);
  const u32 within = u32(number % (kDown * kAcross));
  u32 r, c;
  squareAt(job, square, (job.n + kEdge - 1) / kEdge, r, c);
  row = r * kDown + within / kAcross;
  column = c * kAcross + within % kAcross;
  return row * kRows < job.m && column * kColumns < job.n && !(job.triangle && column * kColumns >= (row + 1) * kRows);
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
  // How its pairs are added, if it is whole and even: 0 where π is so small that four pairs together are unlikely to be
  // linked, in both directions; 1 where products of four q are not too small for float32; 2 else, where the risks see other
  // π, or where there is one direction; 3 where every pair has a π of its own, up to 1 − 1e-18;
  // 4 where π is rare in both directions.
  int kind;
  template <u32 kRows, u32 kColumns> __device__ __forceinline__ void find(const Job &job, u32 from, u32 to) {
    first = from;
    left = to;
    const u32 last = min(first + kRows, job.m) - 1, right = min(left + kColumns, job.n) - 1;
    const int2 a = job.sources[min(first, job.m - 1)], b = job.sources[last], d = job.targets[left], e = job.targets[right];
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
    const bool tiny = !job.dense && fminf(there.y, back.y) < 1e-8f;
    kind = !job.both || floored || tiny ? 2 : job.dense ? 3 : fmaxf(there.x, back.x) <= kRare ? 4 : 4 * (there.x + back.x) > kSmall ? 1 : 0;
  }
};

__device__ __forceinline__ Wide ones() {
  Wide w;
  EACH w[e] = 1;
  return w;
}

// addEven adds pairs of a tile that is whole and even, where π is a matter of fields.
template <int kKind> __device__ __forceinline__ void addEven(const Job &job, const Corner &c, const Wide &z, Totals &t) {
  const Pairs p(z);
  t.shared(p);
  const Exposure there(c.there), back(c.back);
  if (kKind < 2) {
    t.two<kKind>(p, there, back);
    return;
  }
  t.one(p, there, ones());
  if (job.both) t.one(p, back, ones());
}

// addDense adds pairs whose π has terms of its own, given s beyond γz in both directions.
template <int kKind>
__device__ __forceinline__ void addDense(const Job &job, const Wide &z, Wide there, Wide back, Totals &t) {
  EACH there[e] = fmaf(job.gamma, z[e], there[e]);
  EACH back[e] = fmaf(job.gamma, z[e], back[e]);
  if (kKind == 3) {
    Exposure x, y;
    exposures(there, back, x, y);
    if (fmaxf(fmaxf(z[0], z[1]), fmaxf(z[2], z[3])) <= kUnlikelyLog) {
      t.unlikely(z, x, y);
      return;
    }
    EACH x.rest[e] = fmaxf(x.rest[e], 1e-18f), y.rest[e] = fmaxf(y.rest[e], 1e-18f);
    const Pairs p(z);
    t.shared(p);
    t.two<3>(p, x, y);
    return;
  }
  const Pairs p(z);
  t.shared(p);
  t.one(p, Exposure(there, job.floor), ones());
  if (job.both) t.one(p, Exposure(back, job.floor), ones());
}

// addAny adds what may be pairs: of sources i and targets j, which may be beyond the ends.
template <bool kDense>
__device__ __forceinline__ void addAny(const Job &job, const Wide &product, const u32 (&i)[kWide], const u32 (&j)[kWide], Totals &t) {
  Wide z, w, s, sBack;
  u32 at[kWide], returns[kWide];
  EACH {
    const u32 from = min(i[e], job.m - 1), to = min(j[e], job.n - 1);
    const int2 source = job.sources[from], target = job.targets[to];
    bool pair = i[e] < job.m && j[e] < job.n;
    if (job.triangle) pair = pair && i[e] > j[e];
    else pair = pair && (job.ordered ? target.x < source.x : target.x != source.x);
    t.pairs += pair;
    w[e] = pair ? 1.f : 0.f;
    at[e] = 2 * (source.y * job.fields + target.y);
    returns[e] = 2 * (target.y * job.fields + source.y);
    const float4 own = job.table[at[e]], terms = job.sourceTerms[from];
    z[e] = product[e] + terms.x + own.x;
    if (kDense) {
      const float2 other = job.targetTerms[to];
      s[e] = fmaf(job.gamma, z[e], own.y + terms.y + other.y);
      sBack[e] = fmaf(job.gamma, z[e], job.table[returns[e]].y + other.x + terms.z);
    }
  }
  const Pairs p(z);
  t.shared(p, w);
  Exposure there, back;
  if (kDense) {
    there = Exposure(s, job.floor);
    back = Exposure(sBack, job.floor);
  } else {
    EACH {
      const float4 x = job.table[at[e] + 1], y = job.table[returns[e] + 1];
      there.pi[e] = x.x, there.rest[e] = x.y, there.hidden[e] = x.w;
      back.pi[e] = y.x, back.rest[e] = y.y, back.hidden[e] = y.w;
    }
  }
  t.one(p, there, w);
  if (job.both) t.one(p, back, w);
}
