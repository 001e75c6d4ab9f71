// Sources of tokens: a file, a text (scratch_tokens.h), a random generator. Token ids are int32;
// positions and counts are int64, in tokens. Read() throws UserError when it meets an id outside
// the model's vocabulary, naming the source, the position, the id and the vocabulary. Nothing here
// allocates once built.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace plimsoll {
class ScratchFile;
}

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

}  // namespace plimsoll::data
