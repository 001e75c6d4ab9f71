// Several sources seen as one stream of tokens, and windows cut from it: `sequence` inputs, and as
// targets the same tokens shifted by one. Nothing allocates after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "data/tokens/token_source.h"

namespace plimsoll::data {

class TokenStream {
 public:
  explicit TokenStream(SourceList sources);

  int64_t size() const { return starts_.back(); }
  bool has_mask() const { return has_mask_; }
  const SourceList& sources() const { return sources_; }
  int64_t start(size_t source) const { return starts_[source]; }  // position of its first token

  // Copies tokens [start, start + count) to `out`.
  void Read(int64_t start, int64_t count, int32_t* out) const;
  // inputs[i] = token start + i and targets[i] = token start + 1 + i, for i in [0, sequence).
  void ReadWindow(int64_t start, int64_t sequence, int32_t* inputs, int32_t* targets) const;
  // The number of targets in that window that carry loss.
  int64_t CountWindow(int64_t start, int64_t sequence) const;

 private:
  // Calls visit(source, offset in it, offset in the range, count) for each part of a range.
  template <typename Visit>
  void ForEachPart(int64_t offset, int64_t count, Visit visit) const;

  SourceList sources_;
  std::vector<int64_t> starts_;  // [sources + 1], prefix sums of sizes
  bool has_mask_ = false;
};

}  // namespace plimsoll::data
