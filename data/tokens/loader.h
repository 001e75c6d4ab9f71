// The data loader of token sequences: batches for training and evaluation. B sequences in each
// micro-step and rank, T sequence, A micro-steps a step (accumulate), R data ranks.
//
// A step reads A·R·B sequences of T inputs; the targets are the same tokens, shifted by one. The
// sequences of a training are numbered
//     g = skip + ((step·A + micro_step)·R + rank)·B + row
// and the content of sequence g depends only on g and the seed. Therefore a step has the same
// sequences for every split over ranks and micro-steps. Any step can be read at any time, so a
// resumed run continues exactly.
//
// With several parts, mixture.h determines which part gives sequence g, and how many earlier
// sequences that part gave. Each part has its own epochs and its own order (WindowOrder), so a
// small part starts again while a large one is still in its first epoch.
//
// A part's sequences are windows of its tokens, or rows that its examples are packed into.
//
// tokens, targets and positions are int32 [B,T], row-major (TokenRow). Ignored targets are
// kIgnoredTarget. Fill() allocates nothing and changes no state. Throws a UserError when the data
// cannot fill a step, and the UserErrors of the sources.
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
// without end. T sequence.
//
//   consecutive   window i is tokens [w·T, w·T + T] of the concatenated sources, w = i mod N,
//                 N = ⌊(tokens − 1)/T⌋.
//   shuffled      every source is cut into windows from a random offset, drawn for each epoch; a
//                 random permutation of all windows, also drawn for each epoch, orders them. Each
//                 window occurs once per epoch, and none crosses from one source into the next. A
//                 source leaves out one window per epoch, so that its offset can vary by a window's
//                 length; a source with fewer than 16 windows keeps them all, and its offset varies
//                 within its remainder.
//
// The tokens of a window depend only on its number and the seed.

enum class DataOrder { kShuffled, kConsecutive };
// "shuffled", "consecutive"; throws a UserError for other texts.
DataOrder ParseDataOrder(std::string_view text);

class WindowOrder {
 public:
  WindowOrder(TokenStream stream, DataOrder order, uint64_t seed, int64_t sequence);

  const TokenStream& stream() const { return stream_; }
  // Number of windows in an epoch; 0 if the stream has too few tokens.
  int64_t windows() const { return windows_; }
  // The position of a window in the stream. Requires that windows() is not 0.
  int64_t Start(int64_t number) const;

 private:
  DataOrder order_;
  uint64_t seed_;
  int64_t sequence_;
  TokenStream stream_;
  int64_t windows_ = 0;
  std::vector<int64_t> first_;  // shuffled: [sources + 1], prefix sums of the numbers of windows
};

// The sequences of one part in their order, epoch after epoch without end. They are windows or
// packed rows. Each packed row occurs once per epoch; rows are shuffled by the seed and the epoch,
// or consecutive.
class PartOrder {
 public:
  PartOrder(const MixturePart& part, DataOrder order, uint64_t seed, int64_t sequence);

  int64_t sequences() const;  // number of sequences in an epoch; 0 if the part has too few tokens
  int64_t tokens() const { return windows_.stream().size(); }
  const TokenStream& stream() const { return windows_.stream(); }
  const PackedRows* rows() const { return rows_.get(); }  // nullptr if sequences are windows
  const std::shared_ptr<const PackedRows>& shared_rows() const { return rows_; }
  // Whether some sequences may have targets without loss.
  bool has_ignored() const { return rows_ != nullptr || !stream().counts_all(); }

  // The following members read sequence `number`. They require that sequences() is not 0.
  void Read(int64_t number, const TokenRow& out) const;
  int64_t CountTargets(int64_t number) const;
  int64_t CountTokens(int64_t number) const;  // does not count padding

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
  // An offset for a run that resumes with steps of another size: the run's first step continues
  // where its last step before the resumption ended. 0 for other runs.
  int64_t skip = 0;
};

class BatchLoader {
 public:
  // `key` names the data in messages.
  BatchLoader(std::vector<MixturePart> parts, const LoaderOptions& options,
              const std::string& key = "data.train");
  // Makes a loader for a single part.
  BatchLoader(SourceList sources, const LoaderOptions& options,
              const std::string& key = "data.train");

  void Fill(int64_t step, int64_t micro_step, int32_t* tokens, int32_t* targets,
            int32_t* positions = nullptr) const;
  // Reads `rows` sequences, beginning with number `first`, into the row `out` and those after it.
  void FillFrom(int64_t first, int64_t rows, const TokenRow& out) const;

  // The number of targets with loss: in `step`, over all micro-steps and ranks, or in `sequences`
  // sequences from `first` on. Fast if all targets carry loss.
  int64_t CountTargets(int64_t step) const;
  int64_t CountTargets(int64_t first, int64_t sequences) const;
  // The number of tokens in these sequences, without padding.
  int64_t CountTokens(int64_t first, int64_t sequences) const;
  bool pads() const { return pads_; }  // whether some part is packed into rows

  int64_t tokens() const { return tokens_; }
  // The number of sequences without any target that carries loss, in an epoch of all parts. Fast
  // without masks.
  int64_t SequencesWithoutTargets() const;
  const std::vector<PartOrder>& parts() const { return parts_; }
  const Mixture& mixture() const { return mixture_; }
  int64_t sequences_per_step() const;
  // Makes `step` begin with that sequence; later steps continue from there.
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
