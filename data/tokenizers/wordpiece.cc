#include "data/tokenizers/wordpiece.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "data/tokenizers/unicode.h"

namespace plimsoll::data {
namespace {

constexpr size_t kMostSeen = size_t{1} << 16;  // the most words whose ids are cached

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
};
template <typename Value>
using ByText = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

class WordPieceTokenizer final : public Tokenizer {
 public:
  WordPieceTokenizer(WordPieceDescription description, const std::string& name)
      : tokens_(std::move(description.tokens)),
        options_(description.words),
        longest_word_(description.longest_word) {
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (tokens_[id].empty()) continue;
      ids_[tokens_[id]] = static_cast<int32_t>(id);
      longest_token_ = std::max(longest_token_, tokens_[id].size());
    }
    const auto unknown = ids_.find(description.unknown);
    if (unknown == ids_.end()) {
      throw UserError(name + ": has no token " + description.unknown +
                      " for unknown words; get the file again, or name another vocabulary");
    }
    unknown_ = unknown->second;
    for (const AddedToken& token : description.added) {
      AddedToken own = token;
      own.id = ids_.at(token.content);  // if a token occurs twice, its last id
      if (special_.emplace(token.content, own.id).second) finder_.Add(token.content, own);
    }
    finder_.Sort();
  }

  void Encode(std::string_view text, std::vector<int32_t>* out, Place) const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto push = [&](int32_t id) { out->push_back(id); };
    const auto plain = [&](std::string_view part) { EncodePlain(part, out); };
    if (!options_.lower_case) return finder_.ForEach(text, plain, push);
    // A lower-case special token is also found in text that was in upper case, as in BertTokenizer.
    finder_.ForEach(
        text, [&](std::string_view part) { finder_.ForEach(ToLower(part), plain, push); }, push);
  }

  // Words end at blanks and newlines, and composition, removal of accents and lower-casing do not
  // cross them. Only a special token could contain a blank.
  size_t EncodeStart(std::string_view text, std::vector<int32_t>* out, Place place) const override {
    const size_t end = text.find_last_of(" \n");
    if (end == text.npos || finder_.HaveBlanks()) return 0;
    Encode(text.substr(0, end), out, place);
    return end;
  }

  void Decode(int32_t id, std::string* out) const override {
    const std::string_view token = TextOf(id);
    if (token.starts_with(kContinuation)) {
      out->append(token.substr(kContinuation.size()));
    } else {
      out->append(" ").append(token);
    }
  }

  std::string Decode(const std::vector<int32_t>& ids) const override {
    std::string text;
    for (const int32_t id : ids) Decode(id, &text);
    if (!ids.empty() && TextOf(ids.front()).starts_with(kContinuation)) {
      return std::string(kContinuation) + text;
    }
    if (text.starts_with(' ')) text.erase(0, 1);
    return text;
  }

  int64_t vocab_size() const override { return static_cast<int64_t>(tokens_.size()); }

  std::optional<int32_t> TokenId(std::string_view token) const override {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }

  std::optional<bool> ContinuesWord(int32_t id) const override {
    return TextOf(id).starts_with(kContinuation);
  }

 private:
  std::string_view TextOf(int32_t id) const {
    const bool known = id >= 0 && id < vocab_size() && !tokens_[static_cast<size_t>(id)].empty();
    return known ? std::string_view(tokens_[static_cast<size_t>(id)]) : kReplacement;
  }

  // Encodes text between special tokens.
  void EncodePlain(std::string_view text, std::vector<int32_t>* out) const {
    ForEachSpaced(CleanForWords(text, options_), [&](std::string_view spaced) {
      const auto seen = seen_.find(spaced);
      if (seen != seen_.end()) {
        out->insert(out->end(), seen->second.begin(), seen->second.end());
        return;
      }
      const size_t before = out->size();
      EncodeSpaced(spaced, out);
      if (seen_.size() == kMostSeen) return;
      seen_.emplace(spaced,
                    std::vector<int32_t>(out->begin() + static_cast<int64_t>(before), out->end()));
    });
  }

  void EncodeSpaced(std::string_view spaced, std::vector<int32_t>* out) const {
    // Removing accents can produce a special token, which is not split.
    const std::string text = WithoutAccents(spaced, options_);
    const auto special = special_.find(text);
    if (special != special_.end()) return out->push_back(special->second);
    for (const std::string& word : SplitAtPunctuation(text)) EncodeWord(word, out);
  }

  void EncodeWord(std::string_view word, std::vector<int32_t>* out) const {
    std::vector<size_t> bounds;  // where each character begins, and the end
    ForEachCodePoint(word, [&](std::string_view sequence, char32_t) {
      bounds.push_back(static_cast<size_t>(sequence.data() - word.data()));
    });
    if (std::ssize(bounds) > longest_word_) return out->push_back(unknown_);
    bounds.push_back(word.size());
    const size_t before = out->size();
    for (size_t begin = 0; begin + 1 < bounds.size();) {
      begin = PushLongestPiece(word, bounds, begin, out);
      if (begin != 0) continue;
      out->resize(before);
      return out->push_back(unknown_);
    }
  }

  // Pushes the longest token that the word has at character `begin`. Returns the index of the
  // character after it, or 0 if the vocabulary has no such token.
  size_t PushLongestPiece(std::string_view word, const std::vector<size_t>& bounds, size_t begin,
                          std::vector<int32_t>* out) const {
    std::string piece(begin > 0 ? kContinuation : "");
    const size_t prefix = piece.size();
    piece += word.substr(bounds[begin]);
    for (size_t end = bounds.size() - 1; end > begin; --end) {
      const size_t size = prefix + bounds[end] - bounds[begin];
      if (size > longest_token_) continue;
      const auto found = ids_.find(std::string_view(piece).substr(0, size));
      if (found == ids_.end()) continue;
      out->push_back(found->second);
      return end;
    }
    return 0;
  }

  std::vector<std::string> tokens_;
  BertWordOptions options_;
  int64_t longest_word_;
  size_t longest_token_ = 0;  // in bytes
  ByText<int32_t> ids_, special_;
  AddedTokenFinder finder_;
  int32_t unknown_ = 0;
  mutable std::mutex mutex_;  // guards seen_
  mutable ByText<std::vector<int32_t>> seen_;
};

}  // namespace

std::unique_ptr<Tokenizer> MakeWordPieceTokenizer(WordPieceDescription description,
                                                  const std::string& name) {
  return std::make_unique<WordPieceTokenizer>(std::move(description), name);
}

}  // namespace plimsoll::data
