#include "data/tokenizers/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "base/error.h"
#include "data/tokenizers/unicode.h"
#include "formats/json.h"

namespace plimsoll::data {
namespace {

class ByteTokenizer : public Tokenizer {
 public:
  void Encode(std::string_view text, std::vector<int32_t>* out, Place) const override {
    out->reserve(out->size() + text.size());
    for (const char c : text) out->push_back(static_cast<uint8_t>(c));
  }
  void Decode(int32_t id, std::string* out) const override {
    if (id >= 0 && id < 256) {
      out->push_back(static_cast<char>(id));
    } else {
      out->append(kReplacement);
    }
  }
  size_t EncodeStart(std::string_view text, std::vector<int32_t>* out, Place place) const override {
    Encode(text, out, place);
    return text.size();
  }
  int64_t vocab_size() const override { return 256; }
  std::optional<int32_t> TokenId(std::string_view token) const override {
    if (token.size() != 1) return std::nullopt;
    return static_cast<uint8_t>(token[0]);
  }
};

}  // namespace

std::vector<int32_t> Tokenizer::Encode(std::string_view text) const {
  std::vector<int32_t> ids;
  Encode(text, &ids);
  return ids;
}

std::string Tokenizer::Decode(const std::vector<int32_t>& ids) const {
  std::string bytes;
  for (const int32_t id : ids) Decode(id, &bytes);
  return bytes;
}

std::optional<int32_t> Tokenizer::Named(const std::string& role) const {
  const auto found = facts_.named.find(role);
  if (found == facts_.named.end()) return std::nullopt;
  return found->second;
}

std::optional<int32_t> Tokenizer::EndOfText() const {
  if (facts_.chosen_end) return facts_.chosen_end;
  if (const auto end = Named("eos_token")) return end;
  if (!facts_.ends.empty()) return facts_.ends.front();
  if (const auto separator = Named("sep_token")) return separator;
  for (const std::string_view name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "[SEP]"}) {
    if (const auto id = TokenId(name)) return id;
  }
  return std::nullopt;
}

void Tokenizer::ChooseEnd(const std::string& token, const std::string& key) {
  facts_.chosen_end = TokenId(token);
  if (facts_.chosen_end) return;
  throw UserError(
      fmt::format("{}: '{}' is no token of the tokenizer{}; name one, such as its eos_token", key,
                  formats::Printable(token), facts_.folder.empty() ? "" : " in " + facts_.folder));
}

bool Tokenizer::IsEnd(int32_t id) const {
  return EndOfText() == id || std::ranges::find(facts_.ends, id) != facts_.ends.end() ||
         std::ranges::binary_search(facts_.added, id);
}

std::unique_ptr<Tokenizer> MakeByteTokenizer() { return std::make_unique<ByteTokenizer>(); }

}  // namespace plimsoll::data
