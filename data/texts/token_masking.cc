#include "data/texts/token_masking.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/random.h"
#include "data/tokens/token_source.h"

namespace plimsoll::data {
namespace {

// Streams of random numbers drawn from one key.
constexpr uint64_t kChoiceStream = 1, kKindStream = 2, kTokenStream = 3;

double Uniform(uint64_t random) { return static_cast<double>(random >> 11) * 0x1p-53; }

}  // namespace

TokenMasking::TokenMasking(const MaskingOptions& options, const MarkerTokens& markers,
                           int64_t vocab, std::vector<bool> continues)
    : options_(options),
      mask_(markers.mask),
      special_(markers.special),
      continues_(std::move(continues)),
      vocab_(vocab) {}

bool TokenMasking::IsSpecial(int32_t token) const {
  return std::ranges::binary_search(special_, token);
}

bool TokenMasking::Continues(int32_t token) const {
  const auto id = static_cast<size_t>(token);
  return id < continues_.size() && continues_[id];
}

int32_t TokenMasking::Replaced(uint64_t key, int32_t token) const {
  const double kind = Uniform(Hash(key, kKindStream));
  if (kind < options_.mask_share) return mask_;
  if (kind >= options_.mask_share + options_.random_share) return token;
  // The n-th token that isn't special.
  const auto plain = static_cast<uint64_t>(vocab_ - std::ssize(special_));
  auto drawn = static_cast<int32_t>(Below(Hash(key, kTokenStream), plain));
  for (const int32_t special : special_) drawn += drawn >= special ? 1 : 0;
  return drawn;
}

int64_t TokenMasking::Apply(uint64_t key, std::span<int32_t> tokens,
                            std::span<int32_t> targets) const {
  std::ranges::fill(targets, kIgnoredTarget);
  // A unit is a token, or a word with all its pieces. Pieces whose word's beginning was cut off are
  // a unit, too.
  int64_t left = 0;  // units that haven't been looked at
  bool within = false;
  for (const int32_t token : tokens) {
    const bool special = IsSpecial(token);
    left += !special && !(within && Continues(token)) ? 1 : 0;
    within = !special;
  }
  if (left == 0) return 0;
  // Selection sampling (Knuth, volume 2, algorithm 3.4.2 S): each choice of `wanted` units is
  // equally likely.
  int64_t wanted =
      std::clamp<int64_t>(std::llround(options_.fraction * static_cast<double>(left)), 1, left);
  int64_t count = 0;
  bool chosen = false;
  within = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int32_t token = tokens[i];
    const bool special = IsSpecial(token);
    if (!special && !(within && Continues(token))) {
      const uint64_t draw = Hash(key, kChoiceStream, i);
      chosen = static_cast<int64_t>(Below(draw, static_cast<uint64_t>(left))) < wanted;
      wanted -= chosen ? 1 : 0;
      --left;
    }
    within = !special;
    if (special || !chosen) continue;
    if (!targets.empty()) targets[i] = token;
    tokens[i] = Replaced(Hash(key, i), token);
    ++count;
  }
  return count;
}

}  // namespace plimsoll::data
