#include "trainer/save_and_resume/reference_log_probs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <span>
#include <utility>

#include "base/amounts.h"
#include "base/axes.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "data/tokens/token_data.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"

namespace plimsoll::trainer {
namespace {

constexpr const char* kHashes = "hashes";
constexpr const char* kValues = "log_probs";
constexpr const char* kChecksum = "crc32c";
constexpr const char* kBase = "base";

// The rows of all parts, concatenated.
class AllRows {
 public:
  explicit AllRows(const PreferenceRows& parts) : parts_(parts), first_{0} {
    for (const auto& part : parts) first_.push_back(first_.back() + part->rows());
  }

  int64_t count() const { return first_.back(); }
  // The part that contains a row, and the row's number in it.
  std::pair<const data::PackedRows&, int64_t> At(int64_t row) const {
    const auto after = std::ranges::upper_bound(first_, row);
    const auto part = static_cast<size_t>(after - first_.begin()) - 1;
    return {*parts_[part], row - first_[part]};
  }

 private:
  const PreferenceRows& parts_;
  std::vector<int64_t> first_;
};

void FillRow(const AllRows& rows, int64_t row, const data::TokenRow& out, int64_t sequence) {
  if (row < rows.count()) {
    const auto [part, number] = rows.At(row);
    part.Read(number, out);
  } else {
    std::fill_n(out.tokens, sequence, 0);
    std::fill_n(out.targets, sequence, data::kIgnoredTarget);
    std::iota(out.positions, out.positions + sequence, 0);
  }
  std::fill_n(out.reference, sequence, 0.0F);
}

// Appends the sum over each of a row's `count` texts.
void AppendSums(const data::TokenRow& row, const float* log_probs, int64_t sequence, int64_t count,
                std::vector<float>& sums) {
  double sum = 0;
  for (int64_t i = 0; i < sequence && count > 0; ++i) {
    if (row.targets[i] >= 0) sum += static_cast<double>(log_probs[i]);
    if (i + 1 < sequence && row.positions[i + 1] != 0) continue;
    sums.push_back(static_cast<float>(std::exchange(sum, 0)));
    --count;
  }
}

std::string Bytes(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string Checksum(std::span<const uint64_t> hashes, std::span<const float> values) {
  return fmt::format("{:08x}", Crc32c(std::as_bytes(values), Crc32c(std::as_bytes(hashes))));
}

[[noreturn]] void FailAsDamaged(const std::string& path, const std::string& what) {
  throw UserError(fmt::format(
      "{}: {}; restore the file, or begin the run anew: it computes them before its first step",
      path, what));
}

}  // namespace

ReferenceLogProbs ReferenceLogProbs::Compute(
    Session& session, const PreferenceRows& parts, Ranks& ranks, const std::string& base,
    const std::function<void(int64_t, int64_t)>& progress) {
  const AllRows rows(parts);
  const data::TokenSlots slots = data::TokenSlotsOf(session.slots());
  const int64_t batch = session.compiled().options.micro_batch;
  const int64_t sequence = session.compiled().options.sequence;
  const int64_t data_ranks = ranks.mesh().ranks(kDataAxis);
  const int64_t data_rank = ranks.position().at(kDataAxis);
  // All ranks run the same number of batches, because some programs need all ranks.
  const int64_t batches = (rows.count() + batch * data_ranks - 1) / (batch * data_ranks);
  std::vector<float> sums;  // log-probabilities of this rank's rows
  for (int64_t i = 0; i < batches; ++i) {
    const int64_t first = (i * data_ranks + data_rank) * batch;
    for (int64_t row = 0; row < batch; ++row) {
      FillRow(rows, first + row, slots.Row(row, sequence), sequence);
    }
    session.Evaluate(1);
    const std::vector<float> log_probs = session.Read<float>(kLogProbs);
    for (int64_t row = 0; row < std::min(batch, rows.count() - first); ++row) {
      const auto [part, number] = rows.At(first + row);
      AppendSums(slots.Row(row, sequence), log_probs.data() + row * sequence, sequence,
                 part.FirstText(number + 1) - part.FirstText(number), sums);
    }
    progress(i + 1, batches);
  }
  // Among ranks with the same rows, the first one's values count.
  const std::vector<std::string> gathered =
      ranks.Gather(fmt::format("{:8}", data_rank) + Bytes(sums));
  std::vector<std::vector<float>> of_rank(static_cast<size_t>(data_ranks));
  for (auto from = gathered.rbegin(); from != gathered.rend(); ++from) {
    std::vector<float>& values = of_rank.at(std::stoul(from->substr(0, 8)));
    values.resize((from->size() - 8) / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), from->data() + 8, from->size() - 8);
  }
  ReferenceLogProbs references;
  references.base_ = base;
  std::vector<std::pair<uint64_t, float>> found;
  std::vector<size_t> taken(of_rank.size(), 0);
  for (int64_t row = 0; row < rows.count(); ++row) {
    const auto rank = static_cast<size_t>(row / batch % data_ranks);
    const auto [part, number] = rows.At(row);
    for (int64_t text = part.FirstText(number); text < part.FirstText(number + 1); ++text) {
      const float value = of_rank[rank].at(taken[rank]++);
      if (!std::isfinite(value)) {
        throw UserError(fmt::format(
            "preference.loss: the reference log-probability of a text is {}; the weights that the "
            "run begins with, or amp.dtype, give numbers that are not finite",
            value));
      }
      found.emplace_back(part.HashOfText(text), value);
    }
  }
  // Among equal texts, the first one's value counts.
  std::ranges::stable_sort(found, {}, &std::pair<uint64_t, float>::first);
  for (const auto& [hash, value] : found) {
    if (!references.hashes_.empty() && references.hashes_.back() == hash) continue;
    references.hashes_.push_back(hash);
    references.values_.push_back(value);
  }
  return references;
}

const float* ReferenceLogProbs::Find(uint64_t hash) const {
  const auto found = std::ranges::lower_bound(hashes_, hash);
  if (found == hashes_.end() || *found != hash) return nullptr;
  return &values_[static_cast<size_t>(found - hashes_.begin())];
}

std::string ReferenceLogProbs::Content() const {
  std::string content =
      formats::SafetensorsHeader({{kHashes, formats::TensorType::kU64, {size()}},
                                  {kValues, formats::TensorType::kF32, {size()}}},
                                 {{kChecksum, Checksum(hashes_, values_)}, {kBase, base_}});
  for (const std::span<const std::byte> bytes :
       {std::as_bytes(std::span(hashes_)), std::as_bytes(std::span(values_))}) {
    content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return content;
}

ReferenceLogProbs ReferenceLogProbs::Read(const std::string& path, const std::string& base) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    FailAsDamaged(path,
                  "does not exist, and holds the reference log-probabilities of the run's pairs");
  }
  const formats::SafetensorsReader file(path);
  const formats::TensorEntry &hashes = file.Require(kHashes), &values = file.Require(kValues);
  if (hashes.type != formats::TensorType::kU64 || values.type != formats::TensorType::kF32 ||
      hashes.elements != values.elements) {
    FailAsDamaged(path, "is no file of reference log-probabilities");
  }
  ReferenceLogProbs references;
  references.hashes_.resize(static_cast<size_t>(hashes.elements));
  references.values_.resize(references.hashes_.size());
  file.Read(hashes, 0, std::as_writable_bytes(std::span(references.hashes_)));
  file.Read(values, 0, std::as_writable_bytes(std::span(references.values_)));
  const auto found = [&](const char* key) {
    const auto entry = file.metadata().find(key);
    return entry == file.metadata().end() ? std::string() : entry->second;
  };
  if (found(kChecksum) != Checksum(references.hashes_, references.values_)) {
    FailAsDamaged(path, "is damaged (its checksum)");
  }
  references.base_ = found(kBase);
  if (!base.empty() && !references.base_.empty() && base != references.base_) {
    FailAsDamaged(path, fmt::format("was computed with other weights than those of model.init_from "
                                    "(checksum {}, now {})",
                                    references.base_, base));
  }
  return references;
}

void ReferenceLogProbs::Set(const PreferenceRows& parts, const std::string& path) const {
  int64_t unknown = 0, texts = 0;
  for (const auto& part : parts) {
    const std::span<float> references = part->references();
    for (int64_t text = 0; text < part->texts(); ++text) {
      const float* const found = Find(part->HashOfText(text));
      ++texts;
      unknown += found == nullptr;
      if (found != nullptr) references[static_cast<size_t>(text)] = *found;
    }
  }
  if (unknown == 0) return;
  throw UserError(fmt::format(
      "{}: has no reference log-probabilities of {} of {}: they are of the pairs that the "
      "run "
      "began with, and these are others, or end elsewhere (model.sequence, data.too_long, "
      "data.tokenizer, data.chat_template); give the run's own pairs, or begin a run with these",
      path, unknown, Counted(texts, "text")));
}

}  // namespace plimsoll::trainer
