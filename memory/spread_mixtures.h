// Mixtures in which some blocks offload, evenly among the others.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/mixtures.h"
#include "memory/spread.h"

namespace plimsoll::memory {

class SpreadMixtures {
 public:
  struct Options {
    std::vector<Level> levels;  // that offload
    std::vector<int> kinds;     // by block
    BlockTimes times;
    int64_t program_micro_steps = 1;  // of one run of the program
    int64_t step_micro_steps = 1;     // of a whole step
  };

  // `parts`: of what the other blocks do; must outlive this object. `plain`: their mixtures.
  SpreadMixtures(const MixtureParts& parts, Options options, MixtureFront plain, ThreadPool& pool);

  // The fastest of them by peak, as estimated and corrected so far.
  MixtureFront Front() const;

  // What a mixture of the front takes in fact. The estimates of mixtures in which the same level is
  // offloaded are then corrected by the average error.
  struct Taken {
    Mixture mixture;
    double estimated_seconds, seconds;
    int64_t peak;
  };
  void Correct(const std::vector<Taken>& taken);

 private:
  struct Error {
    double block_seconds = 0;  // of each block that offloads
    double peak = 0;           // bytes
  };

  // Of one of `bases_` in which blocks offload.
  struct Estimate {
    double seconds = 0;
    int64_t peak = 0;
  };

  // By count of blocks, as in `counts_`, and base.
  std::vector<Estimate> EstimatesOf(const Level& level) const;
  // The copies of one level offloaded by `count` blocks.
  CopiesBeside Beside(const Level& level, int count) const;
  size_t IndexOf(const Level* level) const {
    return static_cast<size_t>(level - options_.levels.data());
  }

  const MixtureParts& parts_;
  const Options options_;
  const MixtureFront plain_;
  std::vector<std::pair<double, Mixture>> bases_;  // some of `plain_`, and their seconds
  std::vector<MixtureSums> sums_;                  // by side
  std::vector<int> counts_;                        // of blocks that offload
  std::vector<std::vector<Estimate>> estimates_;   // by level, before any correction
  std::vector<Error> errors_;                      // by level
};

}  // namespace plimsoll::memory
