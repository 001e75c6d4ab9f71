#include "data/tokens/held_out_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "data/tokens/token_data.h"

namespace plimsoll::data {

HeldOutTokens::HeldOutTokens(const std::vector<MixturePart>& parts, int64_t sequence, int64_t most,
                             const std::string& key)
    : sequence_(sequence) {
  if (sequence < 1 || most < 0) throw InternalError("data: held-out windows of no tokens");
  std::vector<int64_t> held_out;  // windows of each part
  int64_t all = 0, tokens = 0;
  for (const MixturePart& part : parts) {
    const TokenStream& stream = streams_.emplace_back(part.sources);
    held_out.push_back(std::max<int64_t>(stream.size() - 1, 0) / sequence);
    all += held_out.back();
    tokens = std::max(tokens, stream.size());
  }
  if (all == 0) {
    throw UserError(fmt::format(
        "{}: {} tokens are less than one window of {} + 1; give more held-out data or lower "
        "model.sequence",
        key, tokens, sequence));
  }
  // Each part gives its share by weight as far as it reaches; parts with more windows give the
  // rest.
  const Mixture mixture(parts);
  const int64_t wanted = most > 0 ? std::min(most, all) : all;
  int64_t missing = wanted;
  std::vector<int64_t> taken;
  for (size_t part = 0; part < parts.size(); ++part) {
    taken.push_back(std::min(mixture.Count(part, wanted), held_out[part]));
    missing -= taken.back();
  }
  first_.push_back(0);
  for (size_t part = 0; part < parts.size(); ++part) {
    const int64_t more = std::min(missing, held_out[part] - taken[part]);
    missing -= more;
    first_.push_back(first_.back() + taken[part] + more);
  }
}

HeldOutTokens::Window HeldOutTokens::At(int64_t index) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), index);
  const auto part = static_cast<size_t>(after - first_.begin()) - 1;
  return {streams_[part], (index - first_[part]) * sequence_};
}

void HeldOutTokens::Fill(int64_t first, std::span<const graph::Slot> slots) const {
  const auto [tokens, targets] = TokenSlotsOf(slots);
  const int64_t rows = static_cast<int64_t>(tokens.size()) / sequence_;
  for (int64_t row = 0; row < rows; ++row) {
    int32_t* row_tokens = tokens.data() + row * sequence_;
    int32_t* row_targets = targets.data() + row * sequence_;
    if (first + row < first_.back()) {
      const auto [stream, start] = At(first + row);
      stream.ReadWindow(start, sequence_, row_tokens, row_targets);
    } else {
      std::fill_n(row_tokens, sequence_, 0);
      std::fill_n(row_targets, sequence_, kIgnoredTarget);
    }
  }
}

int64_t HeldOutTokens::CountTargets(std::string_view /*objective*/, int64_t first,
                                    int64_t count) const {
  int64_t total = 0;
  for (int64_t i = first; i < std::min(first + count, first_.back()); ++i) {
    const auto [stream, start] = At(i);
    total += stream.CountWindow(start, sequence_);
  }
  return total;
}

}  // namespace plimsoll::data
