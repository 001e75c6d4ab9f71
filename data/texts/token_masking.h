// Masking for masked language models (Devlin et al. 2019, section 3.1 "Task #1"): some tokens of a
// text become targets, and of those most are replaced by the mask token, some by a random token,
// and the rest stay.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/texts/text_settings.h"

namespace plimsoll::data {

struct MaskingOptions {
  double fraction = 0.15;     // of the tokens, or words, that become targets
  double mask_share = 0.8;    // of the targets that are replaced by the mask token
  double random_share = 0.1;  // and by another token
};

class TokenMasking {
 public:
  // `vocab`: random tokens are drawn below it, except special ones. `continues`, by id, tells ids
  // that go on a word, so that words are masked as a whole; empty: tokens are masked one by one.
  TokenMasking(const MaskingOptions& options, const MarkerTokens& markers, int64_t vocab,
               std::vector<bool> continues = {});

  // Replaces tokens in place and sets `targets`, unless it is empty: the former token where there
  // is loss, otherwise kIgnoredTarget. Exactly round(fraction · n) of the n tokens (words) that
  // aren't special become targets, but at least one. Returns the number of targets. A function of
  // `key` and the tokens alone, which doesn't allocate.
  int64_t Apply(uint64_t key, std::span<int32_t> tokens, std::span<int32_t> targets) const;

 private:
  bool IsSpecial(int32_t token) const;
  bool Continues(int32_t token) const;
  int32_t Replaced(uint64_t key, int32_t token) const;

  MaskingOptions options_;
  int32_t mask_;
  std::vector<int32_t> special_;  // in order
  std::vector<bool> continues_;
  int64_t vocab_;
};

}  // namespace plimsoll::data
