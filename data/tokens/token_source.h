// Sources of tokens: a file, a text (scratch_tokens.h), or a random generator. Token ids are int32;
// positions and counts are int64, in tokens. Read() throws a UserError for an id outside the
// model's vocabulary, which names the source, the position, the id and the vocabulary. A
// constructed source allocates no memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/scratch_file.h"

namespace plimsoll::data {

// A target with this value carries no loss and does not count as a token (PyTorch's ignore_index).
inline constexpr int32_t kIgnoredTarget = -100;

class TokenSource {
 public:
  virtual ~TokenSource() = default;

  virtual const std::string& name() const = 0;  // file or key, for messages
  virtual int64_t size() const = 0;             // number of tokens

  // Copies tokens [offset, offset + count) to `out`.
  virtual void Read(int64_t offset, int64_t count, int32_t* out) const = 0;

  // Whether the source marks tokens that carry no loss when they are targets.
  virtual bool has_mask() const { return false; }
  // Sets out[i] = kIgnoredTarget if token offset + i carries no loss; leaves all other elements
  // unchanged.
  virtual void MaskTargets(int64_t /*offset*/, int64_t /*count*/, int32_t* /*out*/) const {}
  // The number of tokens in [offset, offset + count) that carry loss.
  virtual int64_t CountTargets(int64_t /*offset*/, int64_t count) const { return count; }

  // The scratch file that holds the tokens; nullptr if the tokens are not in a scratch file.
  virtual const ScratchFile* scratch() const { return nullptr; }
};

using SourceList = std::vector<std::shared_ptr<const TokenSource>>;

// A source whose token i is a fixed random function of (seed, i), uniform over [0, vocab).
std::shared_ptr<const TokenSource> MakeSyntheticSource(uint64_t seed, int64_t vocab, int64_t size);

// Throws InternalError unless [offset, offset + count) lies within `source`.
void CheckRange(const TokenSource& source, int64_t offset, int64_t count);

// Memory for a sequence of T tokens.
struct TokenRow {
  int32_t* tokens;   // [T]
  int32_t* targets;  // [T]
  // [T], each token's position in its document, from 0; nullptr: not needed.
  int32_t* positions = nullptr;
  // [T], for preferences: a text's reference log-probability at its first token, 0 elsewhere.
  float* reference = nullptr;
};

// Several sources as one stream of tokens, which is cut into windows: `sequence` inputs and, as
// targets, the same tokens shifted by one. A window counts as one document, unless a token ends
// documents (data.documents: apart). Positions then start at 0 again after each such token; its
// target, the first token of the next document, carries no loss. Nothing is allocated after
// construction.
class TokenStream {
 public:
  explicit TokenStream(SourceList sources, std::optional<int32_t> document_end = std::nullopt);

  int64_t size() const { return starts_.back(); }
  bool has_mask() const { return has_mask_; }
  // Whether every target of a window carries loss.
  bool counts_all() const { return !has_mask_ && !document_end_; }
  const SourceList& sources() const { return sources_; }
  // Position of the source's first token.
  int64_t start(size_t source) const { return starts_[source]; }

  // Copies tokens [start, start + count) to `out`.
  void Read(int64_t start, int64_t count, int32_t* out) const;
  // Sets out.tokens[i] = token start + i and out.targets[i] = token start + 1 + i, for i in [0,
  // sequence).
  void ReadWindow(int64_t start, int64_t sequence, const TokenRow& out) const;
  // The number of targets in that window that carry loss.
  int64_t CountWindow(int64_t start, int64_t sequence) const;

 private:
  // Calls visit(source, offset in the source, offset in the range, count) for each part of a range.
  template <typename Visit>
  void ForEachPart(int64_t offset, int64_t count, Visit visit) const;

  SourceList sources_;
  std::vector<int64_t> starts_;  // [sources + 1], prefix sums of sizes
  std::optional<int32_t> document_end_;
  bool has_mask_ = false;
};

}  // namespace plimsoll::data
