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
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/tokens/token_source.h"
#include "data/tokens/token_stream.h"

namespace plimsoll::data {

enum class DataOrder { kShuffled, kConsecutive };
DataOrder ParseDataOrder(std::string_view text);  // "shuffled", "consecutive"; else UserError

class WindowOrder {
 public:
  WindowOrder(SourceList sources, DataOrder order, uint64_t seed, int64_t sequence);

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

}  // namespace plimsoll::data
