// The data source of token sequences: fills the inputs "tokens", "targets" and "positions",
// i32[B,T], of language models, and "reference", f32[B,T], of models that learn preferences.
// Positions are counted within each document, from 0 (transformers' position_ids); padding counts
// as a document.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/source.h"
#include "data/tokens/dataset.h"
#include "data/tokens/loader.h"
#include "data/tokens/mixture.h"
#include "data/tokens/token_source.h"

namespace plimsoll::data {

// The slots of a token source's inputs. Throws a UserError when there is a slot of another input.
struct TokenSlots {
  std::span<int32_t> tokens, targets;
  std::span<int32_t> positions;  // empty if the program has no such input
  std::span<float> reference;    // empty if the program has no such input

  // The part of the slots for row `row` of the batch.
  TokenRow Row(int64_t row, int64_t sequence) const {
    const int64_t at = row * sequence;
    return {.tokens = tokens.data() + at,
            .targets = targets.data() + at,
            .positions = positions.empty() ? nullptr : positions.data() + at,
            .reference = reference.empty() ? nullptr : reference.data() + at};
  }
};
TokenSlots TokenSlotsOf(std::span<const graph::Slot> slots);

class TokenData final : public Source {
 public:
  // `synthetic`: the data are endless random tokens. Throws a UserError when the data cannot fill a
  // step.
  TokenData(DataSet data, const LoaderOptions& options, int64_t vocab, bool synthetic);

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override;
  int64_t CountTargets(std::string_view objective, int64_t first, int64_t count) const override;
  std::optional<int64_t> CountTokens(int64_t first, int64_t count) const override;
  // Sizes in tokens: the sum over all parts, then each part.
  std::vector<int64_t> sizes() const override;
  std::vector<std::string> checksums() const override;
  std::optional<int64_t> epoch_samples() const override;
  std::unique_ptr<Source> HeldOut(int64_t most) const override;
  std::vector<std::shared_ptr<const PackedRows>> PreferenceRows() const override;
  std::vector<std::string> Warnings() const override { return data_.warnings; }
  std::string Unread() const override;
  std::string Describe(const Reading& reading) const override;

 private:
  std::string EpochsText(size_t part, const Reading& reading) const;

  DataSet data_;
  BatchLoader loader_;
  int64_t sequence_, vocab_;
  bool synthetic_;
  int64_t without_targets_;  // samples in an epoch without a target that carries loss
};

// Held-out token sequences: windows of T tokens, in order and without overlap, or the rows of T
// tokens that examples are packed into. A sample is a window or a row. With several parts, each
// part gives samples in proportion to its weight, up to the number that it has. Rows after the last
// sample hold token 0 and ignored targets. Fills the same inputs as TokenData.
class HeldOutTokens final : public Source {
 public:
  // Uses at most `most` samples; 0: all. Throws a UserError, which names `key`, if there is no
  // sample.
  HeldOutTokens(const std::vector<MixturePart>& parts, int64_t sequence, int64_t most,
                const std::string& key = "data.eval");

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override;
  int64_t CountTargets(std::string_view objective, int64_t first, int64_t count) const override;
  std::optional<int64_t> samples() const override { return first_.back(); }
  std::vector<std::shared_ptr<const PackedRows>> PreferenceRows() const override;
  bool pads() const override { return true; }

 private:
  struct Place {
    const PartOrder& part;
    int64_t number;
  };
  Place At(int64_t index) const;

  int64_t sequence_;
  std::vector<PartOrder> parts_;
  std::vector<int64_t> first_;  // [parts + 1], prefix sums of the numbers of samples
};

}  // namespace plimsoll::data
