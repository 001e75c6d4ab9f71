// Finds the fastest of several ways to do the same work on the GPU, by the rule of choice_rule.h.
// The candidates take turns without a pause, so that all are timed at the clock that the GPU keeps
// under load.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "ops/cuda/choices/choice_rule.h"
#include "ops/cuda/choices/result_bits.h"

namespace plimsoll::ops {

class FastestSearch {
 public:
  // `results`: the memory that the work writes.
  FastestSearch(cudaStream_t stream, std::vector<ResultMemory> results);

  // Adds a candidate, which enqueues its work once per call and must live as long as the search.
  // Runs it twice, because the first run loads its kernels, and times the second. The order of
  // candidates must not depend on time. Overwrites the results.
  TimedWay Try(std::function<void()> enqueue);

  struct Result {
    size_t candidate;  // index of the candidate in the order of Try()
    double microseconds;
  };
  // Times the candidates again that may be chosen. At least one must have been tried. Returns with
  // the stream idle.
  Result Fastest();

 private:
  using Work = std::function<void()>;
  // The microseconds of each work. Every work takes about `rough`.
  std::vector<double> TakeTurns(const std::vector<Work>& works, double rough) const;

  cudaStream_t stream_;
  std::vector<ResultMemory> results_;
  std::vector<Work> works_;
  std::vector<TimedWay> rough_;  // the times of one run of each candidate
};

}  // namespace plimsoll::ops
