#include "trainer/text/bpe_tokenizer.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "trainer/text/added_token_finder.h"

namespace plimsoll::data {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

class BpeTokenizer : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeDescription description)
      : tokens_(std::move(description.tokens)),
        is_byte_(std::move(description.is_byte)),
        normalizer_(std::move(description.normalizer)),
        metaspace_(std::move(description.metaspace)),
        patterns_(std::move(description.patterns)),
        strips_space_(description.strips_space),
        bpe_(std::move(description.model)) {
    is_byte_.resize(tokens_.size());
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (!tokens_[id].empty() && !is_byte_[id])
        ids_.emplace(tokens_[id], static_cast<int32_t>(id));
    }
    for (AddedToken& token : description.added) {
      ids_[token.content] = token.id;
      if (token.normalized) {
        normalized_added_.Add(normalizer_.Apply(token.content), token.id);
      } else {
        raw_added_.Add(token.content, token.id);
      }
    }
    raw_added_.Sort();
    normalized_added_.Sort();
  }

  void Encode(std::string_view text, std::vector<int32_t>* out, Place place) const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto push = [&](int32_t id) { out->push_back(id); };
    raw_added_.ForEach(
        text,
        [&](std::string_view part) {
          const bool first = part.data() == text.data();
          const bool within = first && place == Place::kWithin;
          std::string storage;
          if (!normalizer_.empty()) part = storage = normalizer_.Apply(part, within);
          normalized_added_.ForEach(
              part,
              [&](std::string_view plain) {
                const bool begins = plain.data() == part.data();
                EncodePlain(plain, first && begins, within && begins, out);
              },
              push);
        },
        push);
  }

  void Decode(int32_t id, std::string* out) const override {
    if (id < 0 || id >= static_cast<int64_t>(tokens_.size()) || tokens_[id].empty()) {
      out->append(kReplacement);
    } else {
      out->append(tokens_[id]);
    }
  }

  std::string Decode(const std::vector<int32_t>& ids) const override {
    std::string text, bytes;
    // A run of byte tokens is either valid UTF-8 as a whole, or U+FFFD for each byte.
    const auto end_bytes = [&] {
      bool valid = true;
      ForEachUtf8Run(bytes, [&](std::string_view, bool run_valid) { valid &= run_valid; });
      if (valid) text += bytes;
      for (size_t i = 0; !valid && i < bytes.size(); ++i) text += kReplacement;
      bytes.clear();
    };
    for (const int32_t id : ids) {
      const bool is_byte = id >= 0 && id < vocab_size() && is_byte_[static_cast<size_t>(id)];
      if (!is_byte) end_bytes();
      Decode(id, is_byte ? &bytes : &text);
    }
    end_bytes();
    if (strips_space_ && text.starts_with(' ')) text.erase(0, 1);
    return text;
  }

  int64_t vocab_size() const override { return static_cast<int64_t>(tokens_.size()); }

  std::optional<int32_t> TokenId(std::string_view token) const override {
    const auto found = ids_.find(std::string(token));
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }

 private:
  // Encodes text between added tokens. `first`: it begins the text; `within`: it continues another
  // one.
  void EncodePlain(std::string_view text, bool first, bool within,
                   std::vector<int32_t>* out) const {
    if (metaspace_) {
      EncodeMetaspace(text, first, within, out);
      return;
    }
    ForEachUtf8Run(text, [&](std::string_view run, bool valid) {
      EncodePiece(run, valid ? 0 : patterns_.size(), out);
    });
  }

  void EncodeMetaspace(std::string_view text, bool first, bool within,
                       std::vector<int32_t>* out) const {
    const std::string& mark = metaspace_->replacement;
    std::string marked = ReplaceAll(text, " ", mark);
    const bool wanted = metaspace_->prepend == Metaspace::Prepend::kAlways ||
                        (metaspace_->prepend == Metaspace::Prepend::kFirst && first);
    if (wanted && !within && !marked.starts_with(mark)) marked.insert(0, mark);
    std::string_view rest = marked;
    while (metaspace_->split) {
      const size_t next = rest.find(mark, 1);
      if (next == std::string_view::npos) break;
      bpe_.Encode(rest.substr(0, next), out);
      rest.remove_prefix(next);
    }
    bpe_.Encode(rest, out);
  }

  // Splits `piece` by patterns_[pattern] and the patterns after it.
  void EncodePiece(std::string_view piece, size_t pattern, std::vector<int32_t>* out) const {
    if (pattern == patterns_.size()) {
      bpe_.Encode(piece, out);
      return;
    }
    size_t at = 0, begin = 0, end = 0;
    while (at < piece.size() && patterns_[pattern].Find(piece, at, &begin, &end)) {
      if (begin > at) EncodePiece(piece.substr(at, begin - at), pattern + 1, out);
      EncodePiece(piece.substr(begin, end - begin), pattern + 1, out);
      at = end;
    }
    if (at < piece.size()) EncodePiece(piece.substr(at), pattern + 1, out);
  }

  std::vector<std::string> tokens_;
  std::vector<bool> is_byte_;
  std::unordered_map<std::string, int32_t> ids_;
  AddedTokenFinder raw_added_, normalized_added_;
  Normalizer normalizer_;
  std::optional<Metaspace> metaspace_;
  std::vector<SplitPattern> patterns_;
  bool strips_space_;
  mutable std::mutex mutex_;  // guards the scratch memory of patterns_ and bpe_
  mutable Bpe bpe_;
};

}  // namespace

std::unique_ptr<Tokenizer> MakeBpeTokenizer(BpeDescription description) {
  return std::make_unique<BpeTokenizer>(std::move(description));
}

}  // namespace plimsoll::data
