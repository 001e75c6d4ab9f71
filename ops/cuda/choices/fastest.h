// Finds the fastest of several ways to do the same work on the GPU, as choice_rule.h has it. The
// candidates take turns without a pause, so that all are timed at the clock that the GPU keeps
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
  // `results`: what the work writes.
  FastestSearch(cudaStream_t stream, std::vector<ResultMemory> results);

  // Adds a candidate, which enqueues its work once per call and has to live as long as the search.
  // Runs it twice, for the first run loads its kernels; times the second. Which candidate comes
  // first must not depend on time. Overwrites the results.
  TimedWay Try(std::function<void()> enqueue);

  struct Result {
    size_t candidate;  // index of the candidate in the order of Try()
    double microseconds;
  };
  // Times those further that may be chosen. At least one must have been tried; returns with the
  // stream idle.
  Result Fastest();

 private:
  using Work = std::function<void()>;
  // Microseconds of each, all of which take about `rough`.
  std::vector<double> TakeTurns(const std::vector<Work>& works, double rough) const;

  cudaStream_t stream_;
  std::vector<ResultMemory> results_;
  std::vector<Work> works_;
  std::vector<TimedWay> rough_;  // the times of one run of each candidate
};

}  // namespace plimsoll::ops
