// The likelihood over all pairs of a network and its gradient, as if no pair were linked.
//
// Of a pair of nodes a and b with z the logit of ŷ in both directions, and π there and π back,
//
//   −log q₁ − log q₂,  q = 1 − π·σ(z)                        the likelihood
//   G = ∂/∂z = σ(z)·σ(−z)·(π₁/q₁ + π₂/q₂)                    its slope in z
//   ∂/∂s = π(1 − π)·σ(z)/q                                   and in the logit of either π
//
// The gradient in the weights w of z = Σ w_k a_k b_k + offset is Σ G a_k b_k: a second product, of G and the rows. Where the
// logit of π has terms beyond those of fields, s = cell + γz + source + target, G has γ·∂/∂s of both directions too, and ∂/∂s
// is also summed by source and by target.
#include "pairs.cuh"

// SlopeJob is what a launch is about. Its layout is that of gpu.slopeJob. Nodes are in the order of fields, each field filled
// up to whole tiles, so that the pairs of a tile share their π.
struct SlopeJob {
  const float4 *table; // by the fields of two nodes: π and 1 − π from the first to the second, and back; of terms s both ways
  const int2 *nodes;   // rank; and 1 for a source, 2 for a target, 3 for both, 0 for what fills up
  const int2 *tiles;   // of nodes: their field, and 1 where all of them are both
  double *sums;        // of every thread
  double *cells;       // of every warp or block that adds, by the fields of source and target
  double *weights;     // of every warp or block that multiplies, by w's places
  uint4 *slopes;       // G of a stripe of tiles, where it is put aside
  const float2 *terms; // of s, by node: as a source and as a target; all s are times −log₂e
  float *sides;        // Σ ∂/∂s of a stripe of tiles: of each by row, then by column for every warp or block, as source and target
  double *ends;        // Σ ∂/∂s by node, as source and target: of what is in rows of tiles, and then in columns
  u64 from, to;        // tiles, or parts of products
  u32 n;               // nodes
  u32 dim;             // numbers of a row, padded
  u32 fields;
  u32 ordered;         // 1: only targets of a lower rank than their source are pairs
  u32 top, bottom;     // the rows of tiles of a stripe
  u32 across;          // how many columns of tiles are looked at
  float offset;        // of z
  float gamma;         // of z in s
};

constexpr int kSlopeSums = 4; // of a thread: −log q, slopes in z, pairs, and z times the slopes in s

// SlopeCorner is what is known of a tile beforehand.
struct SlopeCorner {
  u32 first, left;
  u32 there, back; // cells
  float4 pi;
  bool whole; // all of its pairs are pairs, in both directions
  int kind;   // 0 where both π are rare, 1 where products of q are no trouble, 2 else
  template <u32 kRows, u32 kColumns> __device__ __forceinline__ void find(const SlopeJob &job, u32 from, u32 to) {
    first = from;
    left = to;
    const int2 a = job.tiles[from / kRows], b = job.tiles[to / kColumns];
    there = a.x * job.fields + b.x;
    back = b.x * job.fields + a.x;
    pi = job.table[there];
    whole = !job.ordered && a.y && b.y && from >= to + kColumns;
    kind = fmaxf(pi.x, pi.z) <= kRare ? 0 : fminf(pi.y, pi.w) >= .05f ? 1 : 2;
  }
};

// Totals of a thread over one tile: Σ −log q, Σ G, Σ σ/q there and back (with terms Σ ∂/∂s), of rare exposure Σσ, of terms
// Σ z·∂/∂s, and how many pairs.
struct SlopeTotals {
  float nll = 0, dz = 0, there = 0, back = 0, first = 0, byLink = 0;
  u32 pairs = 0;
  // finish adds what rare exposure makes of the powers of σ: −log q is πσ + (πσ)²/2, and σ/q is σ + πσ². Σσ² follows from
  // Σ G = (π₁ + π₂)(Σσ − Σσ²) + (π₁² + π₂²)(Σσ² − Σσ³), as the last term is within 5e-4 of the others, and σ² counts for no
  // more than that itself.
  __device__ __forceinline__ void finish(const SlopeCorner &c) {
    if (!c.whole || c.kind != 0) return;
    const float a = c.pi.x, b = c.pi.z, one = a + b, two = a * a + b * b;
    const float second = fmaf(one, first, -dz) / fmaxf(one - two, 1e-30f);
    nll = fmaf(one, first, fmaf(two / 2, second, nll));
    there += fmaf(a, second, first);
    back += fmaf(b, second, first);
  }
};

// slopeSigmoids returns σ(z), given the products and −log₂e times the offset of z.
__device__ __forceinline__ Wide slopeSigmoids(const Wide &product, float shift) {
  Wide sigma;
  EACH sigma[e] = exp2Fast(fmaf(product[e], -kLog2e, shift));
  EACH sigma[e] = inverse(1 + sigma[e]);
  return sigma;
}

// slopesRare sets G of pairs of a tile that is whole, where both π are rare. Every instruction tells: a card at work on this
// is at the limit of its power.
__device__ __forceinline__ Wide slopesRare(const SlopeCorner &c, const Wide &product, float shift, SlopeTotals &t) {
  const float one = c.pi.x + c.pi.z, two = c.pi.x * c.pi.x + c.pi.z * c.pi.z;
  const Wide sigma = slopeSigmoids(product, shift);
  Wide g;
  EACH g[e] = fmaf(-sigma[e], sigma[e], sigma[e]) * fmaf(two, sigma[e], one);
  t.first += (sigma[0] + sigma[1]) + (sigma[2] + sigma[3]);
  t.dz += (g[0] + g[1]) + (g[2] + g[3]);
  t.pairs += 2 * kWide;
  return g;
}

// slopesWhole sets G of pairs of a tile that is whole.
__device__ __forceinline__ Wide slopesWhole(const SlopeCorner &c, const Wide &product, float shift, SlopeTotals &t) {
  const float sum = c.pi.x + c.pi.z, times = c.pi.x * c.pi.z;
  const Wide sigma = slopeSigmoids(product, shift);
  Wide q, p, both, r, seen, g;
  EACH q[e] = fmaf(-c.pi.x, sigma[e], 1.f);
  EACH p[e] = fmaf(-c.pi.z, sigma[e], 1.f);
  EACH both[e] = q[e] * p[e];
  EACH r[e] = inverse(both[e]);
  EACH g[e] = fmaf(-sigma[e], sigma[e], sigma[e]) * r[e];
  EACH r[e] *= sigma[e];
  EACH seen[e] = fmaf(-times, sigma[e], sum) * sigma[e]; // 1 − both
  EACH t.there = fmaf(p[e], r[e], t.there);
  EACH t.back = fmaf(q[e], r[e], t.back);
  EACH g[e] *= fmaf(-2 * times, sigma[e], sum);
  const float a = fmaf(-seen[0], seen[1], seen[0] + seen[1]), b = fmaf(-seen[2], seen[3], seen[2] + seen[3]);
  t.nll += negLogAny(fmaf(-a, b, a + b), both[0] * both[1] * (both[2] * both[3]));
  t.dz += (g[0] + g[1]) + (g[2] + g[3]);
  t.pairs += 2 * kWide;
  return g;
}

// Directions are which directions of two nodes are pairs.
struct Directions {
  bool there, back;
  __device__ __forceinline__ Directions(const SlopeJob &job, u32 i, u32 j) {
    const int2 a = job.nodes[i], b = job.nodes[j];
    there = i > j && (a.y & 1) && (b.y & 2) && (!job.ordered || b.x < a.x);
    back = i > j && (b.y & 1) && (a.y & 2) && (!job.ordered || a.x < b.x);
  }
};

// slopesAny sets G of what may be pairs, of nodes i and j.
__device__ __forceinline__ Wide slopesAny(const SlopeJob &job, const SlopeCorner &c, const Wide &z, const u32 (&i)[kWide],
                                          const u32 (&j)[kWide], SlopeTotals &t) {
  Wide sigma, other, u, g;
  sigmoids(z, sigma, other, u);
  EACH {
    const Directions is(job, i[e], j[e]);
    const float w = is.there ? 1.f : 0.f, v = is.back ? 1.f : 0.f;
    const float q = fmaxf(fmaf(c.pi.y, sigma[e], other[e]), 1e-35f), p = fmaxf(fmaf(c.pi.w, sigma[e], other[e]), 1e-35f);
    const float r = inverse(q) * w, s = inverse(p) * v;
    t.nll += fmaf(negLogAny(c.pi.x * sigma[e], q), w, negLogAny(c.pi.z * sigma[e], p) * v);
    t.there = fmaf(sigma[e], r, t.there);
    t.back = fmaf(sigma[e], s, t.back);
    g[e] = sigma[e] * (other[e] * fmaf(c.pi.x, r, c.pi.z * s));
    t.dz += g[e];
    t.pairs += u32(is.there) + u32(is.back);
  }
  return g;
}

// Sides are the slopes in s of four pairs, there and back.
struct Sides {
  Wide there, back;
};

// slopesDense sets G of what may be pairs, of nodes i and j, whose π have terms: −log₂e·s but for γz, there and back. With
// u = exp(−z) and x = exp(−s), σ = 1/(1 + u) and π = 1/(1 + x). Powers of two beyond 60 are as good as those.
__device__ __forceinline__ Wide slopesDense(const SlopeJob &job, const SlopeCorner &c, const Wide &product, const Wide &there,
                                            const Wide &back, const u32 (&i)[kWide], const u32 (&j)[kWide], Sides &d, SlopeTotals &t) {
  Wide z, u, x, y, sigma, other, pi, piBack, rest, restBack, q, qBack, r, g;
  EACH z[e] = fmaf(product[e], -kLog2e, -kLog2e * job.offset);
  EACH u[e] = exp2Fast(fminf(fmaxf(z[e], -60.f), 60.f));
  EACH x[e] = exp2Fast(fminf(fmaf(job.gamma, z[e], there[e]), 60.f));
  EACH y[e] = exp2Fast(fminf(fmaf(job.gamma, z[e], back[e]), 60.f));
  EACH sigma[e] = inverse(1 + u[e]);
  EACH r[e] = inverse((1 + x[e]) * (1 + y[e]));
  EACH other[e] = u[e] * sigma[e];
  EACH pi[e] = fmaf(r[e], y[e], r[e]), piBack[e] = fmaf(r[e], x[e], r[e]);
  EACH rest[e] = x[e] * pi[e], restBack[e] = y[e] * piBack[e];
  EACH q[e] = fmaf(rest[e], sigma[e], other[e]), qBack[e] = fmaf(restBack[e], sigma[e], other[e]);
  EACH r[e] = q[e] * qBack[e];
  EACH pi[e] *= sigma[e], piBack[e] *= sigma[e]; // 1 − q
  if (c.whole) {
    Wide seen;
    EACH seen[e] = fmaf(-pi[e], piBack[e], pi[e] + piBack[e]); // 1 − q·qBack
    if (fmaxf(fmaxf(seen[0], seen[1]), fmaxf(seen[2], seen[3])) <= kSmall / 4) {
      const float a = fmaf(-seen[0], seen[1], seen[0] + seen[1]), b = fmaf(-seen[2], seen[3], seen[2] + seen[3]);
      t.nll += negLogSmall(fmaf(-a, b, a + b));
    } else {
      EACH t.nll += negLogAny(seen[e], r[e]);
    }
    t.pairs += 2 * kWide;
  }
  EACH r[e] = inverse(r[e]);
  if (!c.whole) {
    EACH {
      const Directions is(job, i[e], j[e]);
      t.nll += (is.there ? negLogAny(pi[e], q[e]) : 0.f) + (is.back ? negLogAny(piBack[e], qBack[e]) : 0.f);
      if (!is.there) pi[e] = 0;
      if (!is.back) piBack[e] = 0;
      t.pairs += u32(is.there) + u32(is.back);
    }
  }
  EACH pi[e] *= qBack[e] * r[e], piBack[e] *= q[e] * r[e]; // πσ/q
  EACH d.there[e] = pi[e] * rest[e], d.back[e] = piBack[e] * restBack[e];
  EACH q[e] = d.there[e] + d.back[e];
  EACH g[e] = fmaf(job.gamma, q[e], other[e] * (pi[e] + piBack[e]));
  t.dz += (g[0] + g[1]) + (g[2] + g[3]);
  EACH t.byLink = fmaf(q[e], z[e], t.byLink);
  return g;
}

// slopesOf sets G of four pairs of a tile.
__device__ __forceinline__ Wide slopesOf(const SlopeJob &job, const SlopeCorner &c, Wide product, const u32 (&i)[kWide],
                                         const u32 (&j)[kWide], SlopeTotals &t) {
  if (c.whole && c.kind == 0) return slopesRare(c, product, -kLog2e * job.offset, t);
  if (c.whole && c.kind == 1) return slopesWhole(c, product, -kLog2e * job.offset, t);
  EACH product[e] += job.offset;
  return slopesAny(job, c, product, i, j, t);
}

// addCells adds what a tile's pairs slope in the logits of π to the cells, given the sums of σ/q, or with terms of ∂/∂s.
template <bool kDense> __device__ __forceinline__ void addCells(double *cells, const SlopeCorner &c, double there, double back) {
  cells[c.there] += (kDense ? 1. : double(c.pi.x * c.pi.y)) * there;
  cells[c.back] += (kDense ? 1. : double(c.pi.z * c.pi.w)) * back;
}

// kParts is how many warps have sums of a tile by columns.
constexpr u32 kParts = 8;

// sidesOf is where the slopes in s of a tile are summed: by row, and behind these by column for every warp.
template <u32 kTile> __device__ __forceinline__ float *sidesOf(const SlopeJob &job, u32 row, u32 column) {
  return job.sides + (u64(row - job.top) * job.bottom + column) * ((1 + kParts) * kTile * 2);
}
