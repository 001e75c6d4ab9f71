// Elementwise kernels as Eigen expressions: all threads share the elements, block by block.
//
//   ParallelBlocks(ctx.pool, n, [=](Block of) { of(y) = of(a) + of(b); });
//
// An expression of maps allocates nothing and writes one array. In a kernel of several expressions,
// later ones find their block's elements in the L1 cache, so it still passes over memory once.
// Blocks depend on n alone: bits don't depend on the number of threads.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"
#include "ops/simd.h"

namespace plimsoll::ops {

// The elements of a block: eight arrays of double fit in 16 KiB. It is a multiple of every vector
// length.
inline constexpr int64_t kBlockElements = 256;

// The elements [begin, begin + count) of any array.
struct Block {
  int64_t begin, count;

  template <typename T>
  Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>> operator()(T* data) const {
    return {data + begin, count};
  }
  template <typename T>
  Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>> operator()(const T* data) const {
    return {data + begin, count};
  }
};

// Calls body(block) for the blocks of [0, n), in any order and on any thread.
template <typename Body>
inline void ParallelBlocks(ThreadPool& pool, int64_t n, const Body& body) {
  pool.ParallelFor(n, kElementwiseGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kBlockElements) {
      body(Block{i, std::min(kBlockElements, end - i)});
    }
  });
}

}  // namespace plimsoll::ops
