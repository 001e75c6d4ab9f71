// Token sequences as a source of data: fills the inputs "tokens" and "targets", i32[B,T], of
// language models.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/source.h"
#include "data/tokens/dataset.h"
#include "data/tokens/loader.h"

namespace plimsoll::data {

// Those inputs among the slots. UserError when there is another one, which tokens cannot fill.
struct TokenSlots {
  std::span<int32_t> tokens, targets;
};
TokenSlots TokenSlotsOf(std::span<const graph::Slot> slots);

class TokenData final : public Source {
 public:
  // `synthetic`: the data are random tokens, which have no end. UserError when the data cannot fill
  // a step.
  TokenData(DataSet data, const LoaderOptions& options, int64_t vocab, bool synthetic);

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override;
  int64_t CountTargets(std::string_view objective, int64_t first, int64_t count) const override;
  // In tokens: the sum over all parts, then each part.
  std::vector<int64_t> sizes() const override;
  std::optional<int64_t> epoch_samples() const override;
  std::unique_ptr<Source> HeldOut(int64_t most) const override;
  std::string Describe(const Reading& reading) const override;

 private:
  std::string EpochsText(size_t part, const Reading& reading) const;

  DataSet data_;
  BatchLoader loader_;
  int64_t sequence_, vocab_;
  bool synthetic_;
  int64_t without_targets_;  // samples of an epoch in which no target counts
};

}  // namespace plimsoll::data
