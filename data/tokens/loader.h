// The dataloader of token sequences: batches for training and evaluation.   B sequences per
// micro-step and rank, T sequence, A micro-steps a step (accumulate), R data ranks.
//
// A step reads A·R·B sequences of T inputs, with the same tokens shifted by one as targets. The
// sequences of the whole training are numbered
//     g = skip + ((step·A + micro_step)·R + rank)·B + row
// and the content of sequence g depends on g and the seed alone: a step has the same sequences for
// every split over ranks and micro-steps, and any step can be read at any time, so a resumed run
// continues exactly.
//
// With several parts, mixture.h says which part gives sequence g, and how many sequences that part
// gave before. Each part runs through its own epochs, in an order of its own (WindowOrder), so
// that a small part begins again while a large one is still in its first epoch.
//
// A part's sequences are windows of its tokens or the rows that they are packed into.
//
// tokens, targets and positions are int32 [B,T], row-major (TokenRow). Ignored targets are
// kIgnoredTarget. Fill() neither allocates nor changes anything. UserError when the data cannot
// fill a step, and from the sources.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokens/mixture.h"
#include "data/tokens/token_source.h"

namespace plimsoll::data {

// Cuts sources into windows of `sequence` + 1 tokens and orders the windows, epoch after epoch
// without end.   T sequence.
//
//   consecutive   window i is tokens [w·T, w·T + T] of the sources laid end to end, w = i mod N,
//                 N = ⌊(tokens − 1)/T⌋.
//   shuffled      every source is cut into windows from an offset drawn anew for each epoch; a
//                 permutation of all windows, also drawn anew, orders the epoch. Each window comes
//                 once per epoch and none crosses from one source into the next. A source gives up
//                 one window per epoch so that its offset can move by a whole window; a source with
//                 fewer than 16 windows keeps them all and moves within its remainder.
//
// The tokens of a window depend on its number and the seed alone.

enum class DataOrder { kShuffled, kConsecutive };
DataOrder ParseDataOrder(std::string_view text);  // "shuffled", "consecutive"; else UserError

class WindowOrder {
 public:
  WindowOrder(TokenStream stream, DataOrder order, uint64_t seed, int64_t sequence);

  const TokenStream& stream() const { return stream_; }
  int64_t windows() const { return windows_; }  // of an epoch; 0: there are not enough tokens
  // The position of a window in the stream. Requires that there are windows.
  int64_t Start(int64_t number) const;

 private:
  DataOrder order_;
  uint64_t seed_;
  int64_t sequence_;
  TokenStream stream_;
  int64_t windows_ = 0;
  std::vector<int64_t> first_;  // shuffled: [sources + 1], prefix sums of windows
};

// The sequences of one part in their order, epoch after epoch without end: windows, or packed rows,
// of which each comes once per epoch, shuffled by the seed and the epoch or one after the other.
class PartOrder {
 public:
  PartOrder(const MixturePart& part, DataOrder order, uint64_t seed, int64_t sequence);

  int64_t sequences() const;  // of an epoch; 0: there are not enough tokens
  int64_t tokens() const { return windows_.stream().size(); }
  const TokenStream& stream() const { return windows_.stream(); }
  const PackedRows* rows() const { return rows_.get(); }  // nullptr: windows
  const std::shared_ptr<const PackedRows>& shared_rows() const { return rows_; }
  // Some sequences may have targets that carry no loss.
  bool has_ignored() const { return rows_ != nullptr || !stream().counts_all(); }

  // Of the sequence with that number. Requires that there are sequences.
  void Read(int64_t number, const TokenRow& out) const;
  int64_t CountTargets(int64_t number) const;
  int64_t CountTokens(int64_t number) const;  // without padding

 private:
  int64_t RowOf(int64_t number) const;

  DataOrder order_;
  uint64_t seed_;
  int64_t sequence_;
  WindowOrder windows_;
  std::shared_ptr<const PackedRows> rows_;
};

struct LoaderOptions {
  DataOrder order = DataOrder::kShuffled;
  uint64_t seed = 0;
  int64_t batch = 1;
  int64_t sequence = 1;
  int64_t accumulate = 1;
  int64_t data_rank = 0;
  int64_t data_ranks = 1;
  // For a training that continues with steps of another size: the offset at which its first step
  // reads on where the last step ended. Otherwise 0.
  int64_t skip = 0;
};

class BatchLoader {
 public:
  // `key` names the data in messages.
  BatchLoader(std::vector<MixturePart> parts, const LoaderOptions& options,
              const std::string& key = "data.train");
  // For a single part.
  BatchLoader(SourceList sources, const LoaderOptions& options,
              const std::string& key = "data.train");

  void Fill(int64_t step, int64_t micro_step, int32_t* tokens, int32_t* targets,
            int32_t* positions = nullptr) const;
  // Reads `rows` sequences, beginning with number `first`, into rows that follow that of `out`.
  void FillFrom(int64_t first, int64_t rows, const TokenRow& out) const;

  // The number of targets that carry loss: of `step`, over all micro-steps and ranks, or of
  // `sequences` sequences from `first` on. Cheap where all carry loss.
  int64_t CountTargets(int64_t step) const;
  int64_t CountTargets(int64_t first, int64_t sequences) const;
  // The number of tokens of these sequences, without padding.
  int64_t CountTokens(int64_t first, int64_t sequences) const;
  bool pads() const { return pads_; }  // a part is packed into rows

  int64_t tokens() const { return tokens_; }
  // Sequences of an epoch of all parts in which no target carries loss. Cheap without masks.
  int64_t SequencesWithoutTargets() const;
  const std::vector<PartOrder>& parts() const { return parts_; }
  const Mixture& mixture() const { return mixture_; }
  int64_t sequences_per_step() const;
  // Makes `step` begin with that sequence; the later steps follow on.
  void ContinueAt(int64_t step, int64_t sequence) {
    options_.skip = sequence - step * sequences_per_step();
  }
  // The number of the first sequence that this step reads.
  int64_t FirstSequence(int64_t step) const { return options_.skip + step * sequences_per_step(); }

 private:
  LoaderOptions options_;
  Mixture mixture_;
  std::vector<PartOrder> parts_;
  int64_t tokens_ = 0;
  bool has_ignored_ = false, pads_ = false;
};

}  // namespace plimsoll::data
