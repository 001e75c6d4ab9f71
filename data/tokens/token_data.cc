#include "data/tokens/token_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "data/tokens/scratch_tokens.h"

namespace plimsoll::data {
namespace {

// The number of samples in an epoch of all parts.
int64_t SamplesOf(const BatchLoader& loader) {
  int64_t samples = 0;
  for (const PartOrder& part : loader.parts()) samples += part.sequences();
  return samples;
}

// The mean number of tokens in a sequence, without padding.
double MeanTokens(const BatchLoader& loader) {
  constexpr int64_t kMany = 100'000;
  const int64_t samples = std::min(SamplesOf(loader), kMany);
  return static_cast<double>(loader.CountTokens(0, samples)) / static_cast<double>(samples);
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
    } else if (slot.name == "positions") {
      found.positions = slot.values<int32_t>();
    } else if (slot.name == "reference") {
      found.reference = slot.values<float>();
    } else {
      throw UserError(fmt::format("tokens have nothing for the model's input '{}'", slot.name));
    }
  }
  return found;
}

void TokenData::Fill(int64_t first, std::span<const graph::Slot> slots) const {
  const TokenSlots batch = TokenSlotsOf(slots);
  loader_.FillFrom(first, std::ssize(batch.tokens) / sequence_, batch.Row(0, sequence_));
}

int64_t TokenData::CountTargets(std::string_view /*objective*/, int64_t first,
                                int64_t count) const {
  return loader_.CountTargets(first, count);
}

std::optional<int64_t> TokenData::CountTokens(int64_t first, int64_t count) const {
  if (!loader_.pads()) return std::nullopt;
  return loader_.CountTokens(first, count);
}

std::vector<std::shared_ptr<const PackedRows>> TokenData::PreferenceRows() const {
  std::vector<std::shared_ptr<const PackedRows>> rows;
  for (const auto* parts : {&data_.train, &data_.eval}) {
    for (const MixturePart& part : *parts) {
      if (part.rows != nullptr && part.rows->options().pairs) rows.push_back(part.rows);
    }
  }
  return rows;
}

std::vector<int64_t> TokenData::sizes() const {
  std::vector<int64_t> sizes = {loader_.tokens()};
  for (const PartOrder& part : loader_.parts()) sizes.push_back(part.tokens());
  return sizes;
}

std::vector<std::string> TokenData::checksums() const {
  std::vector<std::string> checksums;
  for (const MixturePart& part : data_.train) checksums.push_back(part.checksum);
  return checksums;
}

std::optional<int64_t> TokenData::epoch_samples() const {
  if (synthetic_ || loader_.parts().size() > 1) return std::nullopt;
  return loader_.parts().front().sequences();
}

// The number of epochs in the run, over all its steps: "3.2 epochs".
std::string TokenData::EpochsText(size_t part, const Reading& reading) const {
  const auto read = static_cast<double>(loader_.mixture().Count(part, reading.samples));
  return Counted(
      fmt::format("{:.3g}", read / static_cast<double>(loader_.parts()[part].sequences())),
      "epoch");
}

std::string TokenData::Unread() const { return fmt::format("{}", fmt::join(data_.unread, "; ")); }

std::string TokenData::Describe(const Reading& reading) const {
  const std::vector<MixturePart>& parts = data_.train;
  std::string text =
      fmt::format("data: {} tokens to train on, of a vocabulary of {}, {} per step{}{}\n",
                  FormatCount(static_cast<double>(loader_.tokens())), vocab_,
                  FormatCount(static_cast<double>(reading.samples_per_step) * MeanTokens(loader_)),
                  parts.size() == 1 && !synthetic_ ? ", " + EpochsText(0, reading) : "",
                  reading.held_out_targets
                      ? fmt::format(", {} held out {} evaluated every {}",
                                    FormatCount(static_cast<double>(*reading.held_out_targets)),
                                    PreferenceRows().empty() ? "tokens" : "pairs",
                                    Counted(reading.eval_every, "step"))
                      : "");
  SourceList all;
  for (const auto* held : {&data_.train, &data_.eval}) {
    for (const MixturePart& part : *held) {
      all.insert(all.end(), part.sources.begin(), part.sources.end());
    }
  }
  text += ScratchText(all);
  for (const std::string& note : data_.notes) text += fmt::format("  {}\n", note);
  std::vector<const PackedRows*> rows;
  for (const MixturePart& part : parts) rows.push_back(part.rows.get());
  text += PackingText(rows);
  if (without_targets_ > 0) {
    text += fmt::format(
        "  {} of {} {} no target that counts, as long prompts leave none; a step of such "
        "samples alone makes no update\n",
        without_targets_, Counted(SamplesOf(loader_), "sample"),
        without_targets_ == 1 ? "has" : "have");
  }
  if (parts.size() == 1) return text;
  for (size_t part = 0; part < parts.size(); ++part) {
    const int64_t tokens = loader_.parts()[part].tokens();
    text += fmt::format("  {}: {} tokens, {:.3g} % of the sequences, {}\n", parts[part].name,
                        FormatCount(static_cast<double>(tokens)),
                        100 * loader_.mixture().share(part), EpochsText(part, reading));
  }
  return text;
}

HeldOutTokens::HeldOutTokens(const std::vector<MixturePart>& parts, int64_t sequence, int64_t most,
                             const std::string& key)
    : sequence_(sequence) {
  if (sequence < 1 || most < 0) throw InternalError("data: held-out windows of no tokens");
  std::vector<int64_t> held_out;  // the number of samples in each part
  int64_t all = 0, tokens = 0;
  for (const MixturePart& part : parts) {
    const PartOrder& read =
        parts_.emplace_back(part, DataOrder::kConsecutive, /*seed=*/uint64_t{0}, sequence);
    held_out.push_back(read.sequences());
    all += held_out.back();
    tokens = std::max(tokens, read.tokens());
  }
  if (all == 0) {
    throw UserError(
        fmt::format("{}: {} {} less than one window of {} + 1; give more held-out data or lower "
                    "model.sequence",
                    key, Counted(tokens, "token"), tokens == 1 ? "is" : "are", sequence));
  }
  // Each part gives samples in proportion to its weight, up to the number that it has; larger parts
  // give the rest.
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

HeldOutTokens::Place HeldOutTokens::At(int64_t index) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), index);
  const auto part = static_cast<size_t>(after - first_.begin()) - 1;
  return {parts_[part], index - first_[part]};
}

void HeldOutTokens::Fill(int64_t first, std::span<const graph::Slot> slots) const {
  const TokenSlots batch = TokenSlotsOf(slots);
  const int64_t rows = std::ssize(batch.tokens) / sequence_;
  for (int64_t row = 0; row < rows; ++row) {
    const TokenRow out = batch.Row(row, sequence_);
    if (first + row < first_.back()) {
      const auto [part, number] = At(first + row);
      part.Read(number, out);
    } else {
      std::fill_n(out.tokens, sequence_, 0);
      std::fill_n(out.targets, sequence_, kIgnoredTarget);
      if (out.positions != nullptr) std::iota(out.positions, out.positions + sequence_, 0);
      if (out.reference != nullptr) std::fill_n(out.reference, sequence_, 0.0F);
    }
  }
}

std::vector<std::shared_ptr<const PackedRows>> HeldOutTokens::PreferenceRows() const {
  std::vector<std::shared_ptr<const PackedRows>> rows;
  for (const PartOrder& part : parts_) {
    if (part.rows() != nullptr && part.rows()->options().pairs) rows.push_back(part.shared_rows());
  }
  return rows;
}

int64_t HeldOutTokens::CountTargets(std::string_view /*objective*/, int64_t first,
                                    int64_t count) const {
  int64_t total = 0;
  for (int64_t i = first; i < std::min(first + count, first_.back()); ++i) {
    const auto [part, number] = At(i);
    total += part.CountTargets(number);
  }
  return total;
}

}  // namespace plimsoll::data
