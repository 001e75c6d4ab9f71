// Batches for training and evaluation.   B sequences per micro-step and rank, T sequence, A
// micro-steps a step (accumulate), R data ranks.
//
// A step reads A·R·B sequences of T inputs with the same shifted by one as targets. Their numbers
//     g = skip + ((step·A + micro_step)·R + rank)·B + row
// run through the whole training, and what sequence g holds depends on g and the seed alone: the
// same sequences make up a step whatever its split over ranks and micro-steps, and any step can be
// read at any time, so a resumed run continues exactly.
//
// Of several parts mixture.h says which one gives sequence g, and how many it gave before. Each
// part's windows follow one another epoch after epoch in an order of their own (window_order.h), so
// that a small part begins again while a large one is still in its first epoch.
//
// tokens and targets are int32 [B,T], row-major. Ignored targets are kIgnoredTarget. Fill() neither
// allocates nor changes anything. UserError when the data cannot fill a step, and from the sources.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/mixture.h"
#include "trainer/data/token_source.h"
#include "trainer/data/token_stream.h"
#include "trainer/data/window_order.h"

namespace plimsoll::data {

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
  BatchLoader(std::vector<MixturePart> parts, const LoaderOptions& options,
              const std::string& key = "data.train");
  // Of one part.
  BatchLoader(SourceList sources, const LoaderOptions& options,
              const std::string& key = "data.train");

  void Fill(int64_t step, int64_t micro_step, int32_t* tokens, int32_t* targets) const;
  // `rows` sequences from number `first` on.
  void FillFrom(int64_t first, int64_t rows, int32_t* tokens, int32_t* targets) const;

  // Targets of `step` that carry loss, over all micro-steps and ranks; of any sequences. Cheap
  // without masks.
  int64_t CountTargets(int64_t step) const;
  int64_t CountTargets(int64_t first, int64_t sequences) const;

  int64_t tokens() const { return tokens_; }
  const std::vector<WindowOrder>& parts() const { return parts_; }
  const Mixture& mixture() const { return mixture_; }
  int64_t sequences_per_step() const;
  // Lets `step` begin with that sequence, and the steps behind it follow on.
  void ContinueAt(int64_t step, int64_t sequence) {
    options_.skip = sequence - step * sequences_per_step();
  }
  // The number of the first sequence that this step reads.
  int64_t FirstSequence(int64_t step) const { return options_.skip + step * sequences_per_step(); }

 private:
  LoaderOptions options_;
  Mixture mixture_;
  std::vector<WindowOrder> parts_;
  int64_t tokens_ = 0;
  bool has_mask_ = false;
};

struct EvalOptions {
  int64_t batch = 1;
  int64_t sequence = 1;
  int64_t sequences = 0;  // at most this many, of all ranks together; 0: as many as there are
  int64_t data_rank = 0;
  int64_t data_ranks = 1;
};

// Held-out windows, in order and without overlap, each once: which ones does not depend on how they
// are cut into batches and dealt to ranks. Rows after the last window hold token 0 and ignored
// targets. Of several parts each gives its share by weight, as far as it reaches.
class EvalBatches {
 public:
  EvalBatches(std::vector<MixturePart> parts, const EvalOptions& options,
              const std::string& key = "data.eval");
  // Of one part.
  EvalBatches(SourceList sources, const EvalOptions& options, const std::string& key = "data.eval");

  int64_t count() const { return count_; }  // batches, the same on every rank
  void Fill(int64_t index, int32_t* tokens, int32_t* targets) const;
  int64_t CountTargets() const;  // over all batches and ranks

 private:
  struct Window {
    const TokenStream& stream;
    int64_t start;  // position in it
  };
  int64_t windows() const { return first_.back(); }
  Window At(int64_t index) const;

  EvalOptions options_;
  std::vector<TokenStream> streams_;  // by part
  std::vector<int64_t> first_;        // [parts + 1], prefix sums of windows
  int64_t count_ = 0;
};

}  // namespace plimsoll::data
