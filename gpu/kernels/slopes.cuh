// The likelihood over all pairs of a network and its gradient, as if no pair were linked.
//
// Of a pair of nodes a and b with z the logit of ŷ in both directions, and π there and π back,
//
//   −log q₁ − log q₂,  q = 1 − π·σ(z)                        the likelihood
//   G = ∂/∂z = σ(z)·σ(−z)·(π₁/q₁ + π₂/q₂)                    its slope in z
//   ∂/∂s = π(1 − π)·σ(z)/q                                   and in the logit of either π
//
// The gradient in the weights w of z = Σ w_k a_k b_k + offset is Σ G a_k b_k: a second product, of G and the rows.
#include "pairs.cuh"

// SlopeJob is what a launch is about. Its layout is that of gpu.slopeJob. Nodes are in the order of fields, each field filled
// up to whole tiles, so that the pairs of a tile share their π.
struct SlopeJob {
  const float4 *table; // by the fields of two nodes: π and 1 − π from the first to the second, and back
  const int2 *nodes;   // rank; and 1 for a source, 2 for a target, 3 for both, 0 for what fills up
  const int2 *tiles;   // of nodes: their field, and 1 where all of them are both
  double *sums;        // of every thread
  double *cells;       // of every warp or block that adds, by the fields of source and target
  double *weights;     // of every warp or block that multiplies, by w's places
  uint4 *slopes;       // G of a stripe of tiles, where it is put aside
  u64 from, to;        // tiles, or parts of products
  u32 m, n;            // nodes, twice
  u32 dim;             // numbers of a row, padded
  u32 fields;
  u32 triangle;        // 1: of two nodes one pair is looked at, in both directions
  u32 ordered;         // 1: only targets of a lower rank than their source are pairs
  u32 top, bottom;     // the rows of tiles of a stripe
  float offset;        // of z
};

constexpr int kSlopeSums = 3; // of a thread: −log q, slopes in z, and pairs

// SlopeCorner is what is known of a tile beforehand.
struct SlopeCorner {
  u32 first, left;
  u32 there, back; // cells
  float4 pi;
  bool whole; // all of its pairs are pairs, in both directions
  int kind;   // 0 where π is so small that four pairs together are unlikely to be linked, 1 where products of q are no trouble, 2 else
  template <u32 kRows, u32 kColumns> __device__ __forceinline__ void find(const SlopeJob &job, u32 from, u32 to) {
    first = from;
    left = to;
    const int2 a = job.tiles[from / kRows], b = job.tiles[to / kColumns];
    there = a.x * job.fields + b.x;
    back = b.x * job.fields + a.x;
    pi = job.table[there];
    whole = !job.ordered && a.y && b.y && from >= to + kColumns;
    kind = fminf(pi.y, pi.w) < 1e-8f ? 2 : 4 * (pi.x + pi.z) > kSmall ? 1 : 0;
  }
};

// Totals of a thread over one tile: Σ −log q, Σ G, Σ σ/q there and back, and how many pairs.
struct SlopeTotals {
  float nll = 0, dz = 0, there = 0, back = 0;
  u32 pairs = 0;
};

// slopesWhole sets G of pairs of a tile that is whole.
template <int kKind> __device__ __forceinline__ Wide slopesWhole(const SlopeCorner &c, const Wide &z, SlopeTotals &t) {
  Wide sigma, other, u, q, p, both, r, seen, g;
  sigmoids(z, sigma, other, u);
  EACH q[e] = fmaf(c.pi.y, sigma[e], other[e]);
  EACH p[e] = fmaf(c.pi.w, sigma[e], other[e]);
  EACH both[e] = q[e] * p[e];
  EACH r[e] = inverse(both[e]) * sigma[e];
  EACH seen[e] = c.pi.x * sigma[e];
  EACH u[e] = c.pi.z * sigma[e];
  EACH seen[e] = fmaf(-seen[e], u[e], seen[e] + u[e]); // 1 − both
  const float a = fmaf(-seen[0], seen[1], seen[0] + seen[1]), b = fmaf(-seen[2], seen[3], seen[2] + seen[3]);
  if (kKind == 0) t.nll += negLogSmall(fmaf(-a, b, a + b));
  else t.nll += negLogAny(a, both[0] * both[1]) + negLogAny(b, both[2] * both[3]);
  EACH t.there = fmaf(p[e], r[e], t.there);
  EACH t.back = fmaf(q[e], r[e], t.back);
  EACH g[e] = fmaf(c.pi.x, p[e], c.pi.z * q[e]);
  EACH g[e] *= other[e] * r[e];
  t.dz += (g[0] + g[1]) + (g[2] + g[3]);
  t.pairs += 2 * kWide;
  return g;
}

// slopesAny sets G of what may be pairs, of nodes i and j.
__device__ __forceinline__ Wide slopesAny(const SlopeJob &job, const SlopeCorner &c, const Wide &z, const u32 (&i)[kWide],
                                          const u32 (&j)[kWide], SlopeTotals &t) {
  Wide sigma, other, u, g;
  sigmoids(z, sigma, other, u);
  EACH {
    const int2 a = job.nodes[i[e]], b = job.nodes[j[e]];
    const bool there = i[e] > j[e] && (a.y & 1) && (b.y & 2) && (!job.ordered || b.x < a.x);
    const bool back = i[e] > j[e] && (b.y & 1) && (a.y & 2) && (!job.ordered || a.x < b.x);
    const float w = there ? 1.f : 0.f, v = back ? 1.f : 0.f;
    const float q = fmaxf(fmaf(c.pi.y, sigma[e], other[e]), 1e-35f), p = fmaxf(fmaf(c.pi.w, sigma[e], other[e]), 1e-35f);
    const float r = inverse(q) * w, s = inverse(p) * v;
    t.nll += fmaf(negLogAny(c.pi.x * sigma[e], q), w, negLogAny(c.pi.z * sigma[e], p) * v);
    t.there = fmaf(sigma[e], r, t.there);
    t.back = fmaf(sigma[e], s, t.back);
    g[e] = sigma[e] * (other[e] * fmaf(c.pi.x, r, c.pi.z * s));
    t.dz += g[e];
    t.pairs += u32(there) + u32(back);
  }
  return g;
}

// slopesOf sets G of four pairs of a tile.
__device__ __forceinline__ Wide slopesOf(const SlopeJob &job, const SlopeCorner &c, Wide z, const u32 (&i)[kWide],
                                         const u32 (&j)[kWide], SlopeTotals &t) {
  EACH z[e] += job.offset;
  if (c.whole && c.kind == 0) return slopesWhole<0>(c, z, t);
  if (c.whole && c.kind == 1) return slopesWhole<1>(c, z, t);
  return slopesAny(job, c, z, i, j, t);
}

// addCells adds what a tile's pairs slope in the logits of π to the cells, given the sums of σ/q.
__device__ __forceinline__ void addCells(double *cells, const SlopeCorner &c, float there, float back) {
  cells[c.there] += double(c.pi.x * c.pi.y) * double(there);
  cells[c.back] += double(c.pi.z * c.pi.w) * double(back);
}
