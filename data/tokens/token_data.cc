#include "data/tokens/token_data.h"

#include <fmt/format.h>

#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "data/tokens/held_out_tokens.h"
#include "data/tokens/scratch_tokens.h"

namespace plimsoll::data {
namespace {

// Of an epoch of all parts.
int64_t SamplesOf(const BatchLoader& loader) {
  int64_t samples = 0;
  for (const WindowOrder& part : loader.parts()) samples += part.windows();
  return samples;
}

}  // namespace

TokenData::TokenData(DataSet data, const LoaderOptions& options, int64_t vocab, bool synthetic)
    : data_(std::move(data)),
      loader_(data_.train, options),
      sequence_(options.sequence),
      vocab_(vocab),
      synthetic_(synthetic),
      without_targets_(loader_.SequencesWithoutTargets()) {
  if (without_targets_ > 0 && without_targets_ == SamplesOf(loader_)) {
    throw UserError(
        "data.train: no sample has a target that counts; there is nothing to learn from. Prompts "
        "longer than model.sequence leave none");
  }
}

std::unique_ptr<Source> TokenData::HeldOut(int64_t most) const {
  if (data_.eval.empty()) return nullptr;
  return std::make_unique<HeldOutTokens>(data_.eval, sequence_, most);
}

TokenSlots TokenSlotsOf(std::span<const graph::Slot> slots) {
  TokenSlots found;
  for (const graph::Slot& slot : slots) {
    if (slot.name == "tokens") {
      found.tokens = slot.values<int32_t>();
    } else if (slot.name == "targets") {
      found.targets = slot.values<int32_t>();
    } else {
      throw UserError(fmt::format("tokens have nothing for the model's input '{}'", slot.name));
    }
  }
  return found;
}

void TokenData::Fill(int64_t first, std::span<const graph::Slot> slots) const {
  const auto [tokens, targets] = TokenSlotsOf(slots);
  loader_.FillFrom(first, static_cast<int64_t>(tokens.size()) / sequence_, tokens.data(),
                   targets.data());
}

int64_t TokenData::CountTargets(std::string_view /*objective*/, int64_t first,
                                int64_t count) const {
  return loader_.CountTargets(first, count);
}

std::vector<int64_t> TokenData::sizes() const {
  std::vector<int64_t> sizes = {loader_.tokens()};
  for (const WindowOrder& part : loader_.parts()) sizes.push_back(part.stream().size());
  return sizes;
}

std::optional<int64_t> TokenData::epoch_samples() const {
  if (synthetic_ || loader_.parts().size() > 1) return std::nullopt;
  return loader_.parts().front().windows();
}

// "3.2 epochs", counted over all steps of the run.
std::string TokenData::EpochsText(size_t part, const Reading& reading) const {
  const auto read = static_cast<double>(loader_.mixture().Count(part, reading.samples));
  return fmt::format("{:.3g} epochs", read / static_cast<double>(loader_.parts()[part].windows()));
}

std::string TokenData::Describe(const Reading& reading) const {
  const std::vector<MixturePart>& parts = data_.train;
  std::string text =
      fmt::format("data: {} tokens to train on, of a vocabulary of {}, {} per step{}{}\n",
                  FormatCount(static_cast<double>(loader_.tokens())), vocab_,
                  FormatCount(static_cast<double>(reading.samples_per_step * sequence_)),
                  parts.size() == 1 && !synthetic_ ? ", " + EpochsText(0, reading) : "",
                  reading.held_out_targets
                      ? fmt::format(", {} held out tokens evaluated every {} steps",
                                    FormatCount(static_cast<double>(*reading.held_out_targets)),
                                    reading.eval_every)
                      : "");
  SourceList all;
  for (const auto* held : {&data_.train, &data_.eval}) {
    for (const MixturePart& part : *held) {
      all.insert(all.end(), part.sources.begin(), part.sources.end());
    }
  }
  text += ScratchText(all) + data_.note;
  if (without_targets_ > 0) {
    text += fmt::format(
        "  {} of {} samples have no target that counts, as long prompts leave none; a step of such "
        "samples alone makes no update\n",
        without_targets_, SamplesOf(loader_));
  }
  if (parts.size() == 1) return text;
  for (size_t part = 0; part < parts.size(); ++part) {
    const int64_t tokens = loader_.parts()[part].stream().size();
    text += fmt::format("  {}: {} tokens, {:.3g} % of the sequences, {}\n", parts[part].name,
                        FormatCount(static_cast<double>(tokens)),
                        100 * loader_.mixture().share(part), EpochsText(part, reading));
  }
  return text;
}

}  // namespace plimsoll::data
