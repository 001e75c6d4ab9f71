#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "formats/json.h"
#include "trainer/data/bpe_tokenizer.h"
#include "trainer/data/byte_level.h"

namespace plimsoll::data {

BpeVocabulary::BpeVocabulary(std::string where,
                             const std::vector<std::pair<std::string, int64_t>>& vocab)
    : where_(std::move(where)) {
  // Ids index tables: a stray huge one must not become a huge table.
  const auto limit = static_cast<int64_t>(2 * vocab.size() + 1024);
  BpeDescription& d = description_;
  for (const auto& [token, id] : vocab) {
    if (id < 0 || id >= limit) {
      throw UserError(
          fmt::format("{}: token '{}' has id {}, but {} tokens leave room for ids below "
                      "{}; get the file again",
                      where_, formats::Printable(token), id, vocab.size(), limit));
    }
    ids_[token] = static_cast<int32_t>(id);
    if (static_cast<size_t>(id) >= d.tokens.size()) d.tokens.resize(static_cast<size_t>(id) + 1);
    // Tokens written outside the alphabet are added tokens, kept as they are.
    d.tokens[static_cast<size_t>(id)] = FromByteLevel(token).value_or(token);
  }
  std::array<bool, 256> known = {};
  for (const auto& [token, id] : ids_) {
    const auto bytes = FromByteLevel(token);
    if (!bytes || bytes->size() != 1) continue;
    const auto byte = static_cast<uint8_t>((*bytes)[0]);
    known[byte] = true;
    d.model.byte_ids[byte] = id;
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (!known[static_cast<size_t>(byte)]) {
      throw UserError(fmt::format(
          "{}: no token for byte 0x{:02x}: not a byte-level BPE vocabulary (GPT-2, Llama 3, Qwen2)",
          where_, byte));
    }
  }
}

int32_t BpeVocabulary::Id(const std::string& token, const std::string& field) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) {
    throw UserError(
        fmt::format("{}: {}: '{}' is not in the vocabulary; the two do not belong "
                    "together, or the file is damaged",
                    where_, field, formats::Printable(token)));
  }
  return found->second;
}

void BpeVocabulary::AddMerge(const std::string& left, const std::string& right,
                             const std::string& field) {
  BpeMerge merge;
  merge.left = Id(left, field);
  merge.right = Id(right, field);
  merge.merged = Id(left + right, field);
  description_.model.merges.push_back(merge);
}

void BpeVocabulary::IgnoreMerges() {
  for (const auto& [token, id] : ids_) {
    if (auto bytes = FromByteLevel(token)) {
      description_.model.whole_pieces.emplace(std::move(*bytes), id);
    }
  }
}

BpeDescription BpeVocabulary::Take() { return std::move(description_); }

}  // namespace plimsoll::data
