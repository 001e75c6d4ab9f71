// Finds the fastest of several ways to do the same work on the GPU. The candidates take turns
// without a pause, so that all are timed at the clock that the GPU keeps under load.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace plimsoll::ops {

class FastestSearch {
 public:
  explicit FastestSearch(cudaStream_t stream) : stream_(stream) {}

  // Adds a candidate, which enqueues its work once per call and has to live as long as the search.
  // Runs it twice, for the first run loads its kernels; returns microseconds of the second.
  double Try(std::function<void()> enqueue);

  struct Result {
    size_t candidate;  // in the order of Try()
    double microseconds;
  };
  // Times those further that may be the fastest. A later candidate has to win by more than noise,
  // so that choices are repeatable. At least one must have been tried; returns with the stream
  // idle.
  Result Fastest();

 private:
  struct Timed {
    size_t candidate;
    std::function<void()> enqueue;
    double first = 0;            // µs of one run
    std::vector<double> rounds;  // µs of several

    double median();
  };
  void TakeTurns(std::vector<Timed>& timed, double fastest) const;

  cudaStream_t stream_;
  std::vector<Timed> timed_;
};

}  // namespace plimsoll::ops
