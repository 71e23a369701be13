// Which targets score best for each of many queries.
//
// A target's score for a query is product·scale + offset of the target's field + slope·value of the target. A sample of the
// targets tells what the best of all are likely to score at least; then everything above that is found, the best of it is
// kept, and its scores are computed once more from rows in float32.

// Search is what a launch looks for. Its layout is that of gpu.search.
struct Search {
  const float *scales;    // by query
  const float *offsets;   // by query and field; null: none
  const float *slopes;    // by query; null: none
  const u32 *fields;      // by target
  const float *values;    // by target
  const unsigned char *among; // by target: 1 for those that may be hits; null: all may
  float *least;           // by query: what a score must be above
  float *scores;          // a row per query for the scores of all targets; null: those above the least are found
  u32 *counts;            // by query: how many were found
  uint2 *found;           // by query: score and target, in room for so many
  uint2 *kept;            // by query: the best of them
  u64 from, to;           // tiles
  u32 m, n;               // queries, targets
  u32 dim;                // numbers of a row, padded
  u32 fieldCount;
  u32 room, keep;         // of what is found and kept
  u32 rank;               // in the sample: the place of the score that becomes the least
  u32 known;              // there are offsets, slopes or an among
  static constexpr u32 triangle = 0;
};

__device__ __forceinline__ float scoreOf(const Search &s, u32 query, u32 target, float product) {
  float score = product * s.scales[query];
  if (s.offsets) score += s.offsets[u64(query) * s.fieldCount + s.fields[target]];
  if (s.slopes) score = fmaf(s.slopes[query], s.values[target], score);
  return score;
}

// find notes a score that is above the least.
__device__ __forceinline__ void find(const Search &s, u32 query, u32 target, float score) {
  const u32 at = atomicAdd(&s.counts[query], 1);
  if (at < s.room) s.found[u64(query) * s.room + at] = make_uint2(__float_as_uint(score), target);
}

// offer takes a score of a pair that is there: it is written down, or found if it is above the least.
__device__ __forceinline__ void offer(const Search &s, u32 query, u32 target, float score) {
  if (s.among && !s.among[target]) score = -INFINITY;
  if (s.scores) s.scores[u64(query) * s.n + target] = score;
  else if (score > s.least[query]) find(s, query, target, score);
}
