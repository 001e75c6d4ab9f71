#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "data/tokenizers/bpe_tokenizer.h"
#include "data/tokenizers/unicode.h"
#include "formats/json.h"

namespace plimsoll::data {
namespace {

// The byte-level alphabet of GPT-2 (Radford et al. 2019, encoder.py): vocabulary files write every
// byte as one printable character, so that any byte string is a readable JSON string. Printable
// Latin-1 bytes are written as themselves; the other 68 are written as U+0100 and up, in order.
constexpr int kCharacters = 256 + 68;

// Maps code points to bytes; -1: not in the alphabet.
std::array<int, kCharacters> MakeAlphabet() {
  std::array<int, kCharacters> bytes;
  bytes.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    bytes[printable ? byte : next++] = byte;
  }
  return bytes;
}

// Decodes `token` to bytes; nullopt if it has a character outside the alphabet.
std::optional<std::string> FromByteLevel(std::string_view token) {
  static const std::array<int, kCharacters> alphabet = MakeAlphabet();
  std::string bytes;
  for (size_t i = 0; i < token.size(); ++i) {
    int code = static_cast<uint8_t>(token[i]);
    if (code >= 0x80) {
      // The alphabet ends at U+0143, so sequences have at most two bytes.
      const bool two = code >= 0xc2 && code <= 0xdf && i + 1 < token.size() &&
                       (static_cast<uint8_t>(token[i + 1]) & 0xc0) == 0x80;
      if (!two) return std::nullopt;
      code = (code & 0x1f) << 6 | (static_cast<uint8_t>(token[++i]) & 0x3f);
    }
    if (code >= kCharacters || alphabet[code] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(alphabet[code]));
  }
  return bytes;
}

}  // namespace

BpeVocabulary::BpeVocabulary(std::string where,
                             const std::vector<std::pair<std::string, int64_t>>& vocab,
                             Spelling spelling)
    : where_(std::move(where)), spelling_(spelling) {
  // Ids are indices of tables, and a single huge id must not create a huge table.
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
    // Tokens with characters outside the alphabet are added tokens and are not decoded.
    d.tokens[static_cast<size_t>(id)] =
        spelling == Spelling::kByteLevel ? FromByteLevel(token).value_or(token) : token;
  }
  d.is_byte.resize(d.tokens.size());
  spelling == Spelling::kByteLevel ? FindBytes() : FindCharacters();
}

void BpeVocabulary::FindBytes() {
  BpeDescription& d = description_;
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

void BpeVocabulary::FindCharacters() {
  BpeDescription& d = description_;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string name = fmt::format("<0x{:02X}>", byte);
    const auto found = ids_.find(name);
    if (found == ids_.end()) {
      throw UserError(
          fmt::format("{}: has byte_fallback, but no token {}; get the file again", where_, name));
    }
    d.model.byte_ids[static_cast<size_t>(byte)] = found->second;
    d.is_byte[static_cast<size_t>(found->second)] = true;
  }
  for (const auto& [token, id] : ids_) {
    if (token.empty()) throw UserError(where_ + ": has an empty token; get the file again");
    if (Utf8Length(token) == token.size()) d.model.character_ids.emplace(CodePoint(token), id);
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
  if (spelling_ == Spelling::kByteLevel) return;
  if (description_.is_byte[static_cast<size_t>(merge.left)] ||
      description_.is_byte[static_cast<size_t>(merge.right)]) {
    throw UserError(
        fmt::format("{}: {}: joins the token of a byte, which is not supported", where_, field));
  }
  size_t last = left.size() - 1;
  while (last > 0 && (static_cast<uint8_t>(left[last]) & 0xc0) == 0x80) --last;
  description_.model.joints.insert(
      PairOf(CodePoint(std::string_view(left).substr(last)),
             CodePoint(std::string_view(right).substr(0, Utf8Length(right)))));
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
