// Sources of tokens: a file, a text (scratch_tokens.h), a random generator. Token ids are int32;
// positions and counts are int64, in tokens. Read() throws UserError when it meets an id outside
// the model's vocabulary, naming the source, the position, the id and the vocabulary. Nothing here
// allocates once built.
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
  virtual int64_t size() const = 0;             // tokens

  // Copies tokens [offset, offset + count) to `out`.
  virtual void Read(int64_t offset, int64_t count, int32_t* out) const = 0;

  // A source may say, per token, that it carries no loss when it is a target.
  virtual bool has_mask() const { return false; }
  // Sets out[i] = kIgnoredTarget where token offset + i carries no loss; leaves the others.
  virtual void MaskTargets(int64_t /*offset*/, int64_t /*count*/, int32_t* /*out*/) const {}
  // How many of tokens [offset, offset + count) carry loss.
  virtual int64_t CountTargets(int64_t /*offset*/, int64_t count) const { return count; }

  // The scratch file that holds the tokens; nullptr: they are elsewhere.
  virtual const ScratchFile* scratch() const { return nullptr; }
};

using SourceList = std::vector<std::shared_ptr<const TokenSource>>;

// Token i is a fixed random function of (seed, i), uniform over [0, vocab).
std::shared_ptr<const TokenSource> MakeSyntheticSource(uint64_t seed, int64_t vocab, int64_t size);

// Throws InternalError unless [offset, offset + count) lies within `source`.
void CheckRange(const TokenSource& source, int64_t offset, int64_t count);

// Where a sequence of T tokens goes.
struct TokenRow {
  int32_t* tokens;               // [T]
  int32_t* targets;              // [T]
  int32_t* positions = nullptr;  // [T] of each token in its document, from 0; nullptr: not wanted
  // [T] of preferences: at the first token of a text its reference log-probability, 0 elsewhere.
  float* reference = nullptr;
};

// Several sources seen as one stream of tokens, and windows cut from it: `sequence` inputs, and as
// targets the same tokens shifted by one. A window is one document, unless a token ends documents
// (data.documents: apart): then positions begin at 0 again after each such token, whose target, the
// first token of the next document, carries no loss. Nothing allocates after construction.
class TokenStream {
 public:
  explicit TokenStream(SourceList sources, std::optional<int32_t> document_end = std::nullopt);

  int64_t size() const { return starts_.back(); }
  bool has_mask() const { return has_mask_; }
  // Every target of a window carries loss.
  bool counts_all() const { return !has_mask_ && !document_end_; }
  const SourceList& sources() const { return sources_; }
  int64_t start(size_t source) const { return starts_[source]; }  // position of its first token

  // Copies tokens [start, start + count) to `out`.
  void Read(int64_t start, int64_t count, int32_t* out) const;
  // out.tokens[i] = token start + i and out.targets[i] = token start + 1 + i, for i in
  // [0, sequence).
  void ReadWindow(int64_t start, int64_t sequence, const TokenRow& out) const;
  // The number of targets in that window that carry loss.
  int64_t CountWindow(int64_t start, int64_t sequence) const;

 private:
  // Calls visit(source, offset in it, offset in the range, count) for each part of a range.
  template <typename Visit>
  void ForEachPart(int64_t offset, int64_t count, Visit visit) const;

  SourceList sources_;
  std::vector<int64_t> starts_;  // [sources + 1], prefix sums of sizes
  std::optional<int32_t> document_end_;
  bool has_mask_ = false;
};

}  // namespace plimsoll::data
