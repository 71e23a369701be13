// The steps of a search that are not products of all queries and all targets, and those products on any card.
#include "pairs.cuh"
#include "lists.cuh"
#include "multiply.cuh"

// Numbers whose order is that of scores; what is not a number comes first.
__device__ __forceinline__ u32 ordered(u32 bits) {
  if ((bits & 0x7fffffff) > 0x7f800000) return 0;
  return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}
__device__ __forceinline__ float unordered(u32 key) { return __uint_as_float(key & 0x80000000 ? key & 0x7fffffff : ~key); }

// rankedAt returns, to all threads of a block, the key of the given rank from 1 on among so many, byte by byte from the highest.
template <typename KeyOf> __device__ u32 rankedAt(u32 count, u32 rank, KeyOf keyOf) {
  __shared__ u32 bins[256], chosen, left;
  u32 prefix = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (u32 b = threadIdx.x; b < 256; b += blockDim.x) bins[b] = 0;
    __syncthreads();
    for (u32 k = threadIdx.x; k < count; k += blockDim.x) {
      const u32 key = keyOf(k);
      if (shift == 24 || key >> (shift + 8) == prefix) atomicAdd(&bins[key >> shift & 255], 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      u32 b = 255;
      while (b > 0 && bins[b] < rank) rank -= bins[b--];
      chosen = b;
      left = rank;
    }
    __syncthreads();
    prefix = prefix << 8 | chosen;
    rank = left;
    __syncthreads();
  }
  return prefix;
}

// setLeast takes the score of a rank in the sample as the least, a block per query.
extern "C" __global__ void __launch_bounds__(256) setLeast(Search s) {
  for (u32 query = blockIdx.x; query < s.m; query += gridDim.x) {
    const float *row = s.scores + u64(query) * s.n;
    const u32 key = rankedAt(s.n, min(s.rank, s.n), [&](u32 k) { return ordered(__float_as_uint(row[k])); });
    if (threadIdx.x == 0) {
      s.least[query] = s.rank > s.n ? -INFINITY : unordered(key);
      s.counts[query] = 0;
    }
  }
}

// keepBest keeps the best of what was found, a block per query: counts are then of these, all ones where there was no room.
// The least becomes what everything that is not kept scores at most.
extern "C" __global__ void __launch_bounds__(256) keepBest(Search s) {
  __shared__ u32 at;
  for (u32 query = blockIdx.x; query < s.m; query += gridDim.x) {
    const u32 count = s.counts[query];
    const uint2 *found = s.found + u64(query) * s.room;
    uint2 *kept = s.kept + u64(query) * s.keep;
    __syncthreads();
    if (count > s.room) {
      if (threadIdx.x == 0) s.counts[query] = 0xffffffff;
      continue;
    }
    u32 least = 0;
    if (count > s.keep) least = rankedAt(count, s.keep, [&](u32 k) { return ordered(found[k].x); });
    if (threadIdx.x == 0) at = 0;
    __syncthreads();
    for (u32 k = threadIdx.x; k < count; k += blockDim.x) {
      if (ordered(found[k].x) < least) continue;
      const u32 place = atomicAdd(&at, 1);
      if (place < s.keep) kept[place] = found[k];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      s.counts[query] = at > s.keep ? 0xffffffff : at; // more than fit are equal to the last
      if (count > s.keep) s.least[query] = unordered(least);
    }
    __syncthreads();
  }
}

// rescore computes the scores of what is kept from rows in float32, a warp per pair.
extern "C" __global__ void __launch_bounds__(256) rescore(Search s, const float *queries, const float *targets, u32 width) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (u32 query = blockIdx.x; query < s.m; query += gridDim.x) {
    const u32 count = s.counts[query];
    if (count == 0xffffffff) continue;
    const float *q = queries + u64(query) * width;
    for (u32 k = warp; k < count; k += warps) {
      uint2 &pair = s.kept[u64(query) * s.keep + k];
      const u32 target = pair.y;
      const float *h = targets + u64(target) * width;
      float sum = 0;
      for (u32 d = lane; d < width; d += 32) sum = fmaf(q[d], h[d], sum);
      for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
      if (s.offsets) sum += s.offsets[u64(query) * s.fieldCount + s.fields[target]];
      if (s.slopes) sum = fmaf(s.slopes[query], s.values[target], sum);
      if (lane == 0) pair.x = __float_as_uint(sum);
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) findPairs_float32(Search s, const float *a, const float *b) {
  for (u64 number = s.from + blockIdx.x; number < s.to; number += gridDim.x) {
    u32 row, column;
    if (!tileAt<kEdge, kTile, kTile>(s, number, row, column)) continue;
    float product[4][4];
    multiply(a, b, row * kTile, column * kTile, s.m, s.n, s.dim, product);
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
      for (int c = 0; c < 4; c++) {
        const u32 i = row * kTile + threadIdx.x / 16 * 4 + r, j = column * kTile + threadIdx.x % 16 * 4 + c;
        if (i < s.m && j < s.n) offer(s, i, j, scoreOf(s, i, j, product[r][c]));
      }
  }
}

// gatherRows copies rows of so many words.
extern "C" __global__ void __launch_bounds__(256) gatherRows(const u32 *from, const u32 *which, u32 *to, u32 count, u32 words) {
  for (u32 row = blockIdx.x; row < count; row += gridDim.x)
    for (u32 k = threadIdx.x; k < words; k += blockDim.x) to[u64(row) * words + k] = from[u64(which[row]) * words + k];
}
