// Held-out token sequences: the samples of evaluations of language models.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/source.h"
#include "data/tokens/mixture.h"
#include "data/tokens/token_stream.h"

namespace plimsoll::data {

// The held-out windows of T tokens, in order and without overlap; a window is a sample. With
// several parts, each gives its share by weight, as far as it reaches. Rows after the last window
// hold token 0 and ignored targets. Fills "tokens" and "targets", i32[B,T].
class HeldOutTokens final : public Source {
 public:
  // At most `most` windows, or all with 0. UserError, which names `key`, when there is none.
  HeldOutTokens(const std::vector<MixturePart>& parts, int64_t sequence, int64_t most,
                const std::string& key = "data.eval");

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override;
  int64_t CountTargets(std::string_view objective, int64_t first, int64_t count) const override;
  std::optional<int64_t> samples() const override { return first_.back(); }
  bool pads() const override { return true; }

 private:
  struct Window {
    const TokenStream& stream;
    int64_t start;  // position in the stream
  };
  Window At(int64_t index) const;

  int64_t sequence_;
  std::vector<TokenStream> streams_;  // by part
  std::vector<int64_t> first_;        // [parts + 1], prefix sums of windows
};

}  // namespace plimsoll::data
