// Batches for training and evaluation.   B sequences per micro-step and rank, T sequence, A
// micro-steps a step (accumulate), R data ranks.
//
// A step reads A·R·B sequences of T inputs with the same shifted by one as targets. Their numbers
//     g = skip + ((step·A + micro_step)·R + rank)·B + row
// run through the whole training, and what sequence g holds depends on g and the seed alone: the
// same sequences make up a step whatever its split over ranks and micro-steps, and any step can be
// read at any time, so a resumed run continues exactly.
//
//   consecutive   sequence g is tokens [w·T, w·T + T] of the sources laid end to end, w = g mod N,
//                 N = ⌊(tokens − 1)/T⌋. A micro-step of one rank is one window of B·T + 1 tokens.
//   shuffled      every source is cut into windows from an offset drawn anew for each epoch; a
//                 permutation of all windows, drawn anew too, orders the epoch. Each window comes
//                 once an epoch and none crosses from one source into the next. A source gives up
//                 one window per epoch so that its offset can move by a whole window; one with
//                 fewer than 16 windows keeps them all and moves within its remainder.
//
// tokens and targets are int32 [B,T], row-major. Ignored targets are kIgnoredTarget. Fill() neither
// allocates nor changes anything. UserError when the data cannot fill a step, and from the sources.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/data/token_source.h"
#include "trainer/data/token_stream.h"

namespace plimsoll::data {

enum class DataOrder { kShuffled, kConsecutive };
DataOrder ParseDataOrder(std::string_view text);  // "shuffled", "consecutive"; else UserError

struct LoaderOptions {
  DataOrder order = DataOrder::kShuffled;
  uint64_t seed = 0;
  int64_t batch = 1;
  int64_t sequence = 1;
  int64_t accumulate = 1;
  int64_t data_rank = 0;
  int64_t data_ranks = 1;
  // Where a training that goes on with steps of another size stands: such that its first step reads
  // on where the last one ended. Otherwise 0.
  int64_t skip = 0;
};

class BatchLoader {
 public:
  // `key` names the data in messages.
  BatchLoader(SourceList sources, const LoaderOptions& options,
              const std::string& key = "data.train");

  void Fill(int64_t step, int64_t micro_step, int32_t* tokens, int32_t* targets) const;

  // Targets of `step` that carry loss, over all micro-steps and ranks. Cheap without masks.
  int64_t CountTargets(int64_t step) const;

  int64_t tokens() const { return stream_.size(); }
  int64_t windows_per_epoch() const { return windows_; }
  int64_t sequences_per_step() const;
  // Lets `step` begin with that sequence, and the steps behind it follow on.
  void ContinueAt(int64_t step, int64_t sequence) {
    options_.skip = sequence - step * sequences_per_step();
  }
  // The number of the first sequence that this step reads.
  int64_t FirstSequence(int64_t step) const { return options_.skip + step * sequences_per_step(); }

 private:
  int64_t WindowStart(int64_t sequence_number) const;  // position in the stream

  LoaderOptions options_;
  TokenStream stream_;
  int64_t windows_ = 0;
  std::vector<int64_t> window_starts_;  // shuffled: [sources + 1], prefix sums of windows
};

struct EvalOptions {
  int64_t batch = 1;
  int64_t sequence = 1;
  int64_t batches = 0;  // at most this many, of all ranks together; 0: as many as there are
  int64_t data_rank = 0;
  int64_t data_ranks = 1;
};

// Held-out windows, in order and without overlap, each once. Rows after the last window hold token
// 0 and ignored targets, so that a small held-out part is still evaluated whole.
class EvalBatches {
 public:
  EvalBatches(SourceList sources, const EvalOptions& options, const std::string& key = "data.eval");

  int64_t count() const { return count_; }  // batches, the same on every rank
  void Fill(int64_t index, int32_t* tokens, int32_t* targets) const;
  int64_t CountTargets() const;  // over all batches and ranks

 private:
  EvalOptions options_;
  TokenStream stream_;
  int64_t windows_ = 0;
  int64_t count_ = 0;
};

}  // namespace plimsoll::data
