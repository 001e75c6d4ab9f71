// Finds tokens such as "<s>" or "[MASK]" that are spelled out in a text.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizers/unicode.h"

namespace plimsoll::data {

// A token that is searched for in a text before the text is split into words, as in Hugging Face's
// tokenizers.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool normalized = false;   // searched for in normalised text
  bool lstrip = false;       // absorbs the white space before it
  bool rstrip = false;       // absorbs the white space after it
  bool single_word = false;  // must not be adjacent to a word character
};

// Finds occurrences of a set of tokens: the leftmost occurrence, and among these the longest.
class AddedTokenFinder {
 public:
  // `content` is the text to search for: the token's content, possibly normalised.
  void Add(std::string content, const AddedToken& token) {
    if (content.empty()) return;  // the normaliser may have removed all of it
    auto& bucket = by_first_[static_cast<uint8_t>(content[0])];
    bucket.push_back(token);
    bucket.back().content = std::move(content);
    strips_ |= token.lstrip || token.rstrip;
  }
  void Sort() {
    for (auto& bucket : by_first_) {
      std::stable_sort(bucket.begin(), bucket.end(), [](const auto& a, const auto& b) {
        return a.content.size() > b.content.size();
      });
    }
  }

  // Calls text(part) and token(id) for the parts of `text`, in order. White space that a token
  // absorbs is not passed on.
  template <typename OnText, typename OnToken>
  void ForEach(std::string_view text, OnText on_text, OnToken on_token) const {
    size_t begin = 0;
    for (size_t i = 0; i < text.size();) {
      const AddedToken* found = Match(text, i);
      if (found == nullptr) {
        ++i;
        continue;
      }
      size_t from = i;
      i += found->content.size();
      const std::string_view before = text.substr(0, from), after = text.substr(i);
      if (found->single_word && (EndsWithWord(before) || StartsWithWord(after))) continue;
      if (found->lstrip) from = std::max(begin, from - TrailingWhiteSpace(before));
      if (from > begin) on_text(text.substr(begin, from - begin));
      on_token(found->id);
      begin = i + (found->rstrip ? LeadingWhiteSpace(after) : 0);
    }
    if (begin < text.size()) on_text(text.substr(begin));
  }

  // Whether any token contains a blank or newline.
  bool HaveBlanks() const {
    return Any([](const std::string& token) { return token.find_first_of(" \n") != token.npos; });
  }
  bool AnyEnds(std::string_view text) const {
    return Any([&](const std::string& token) { return text.ends_with(token); });
  }
  // Whether any token absorbs white space.
  bool Strips() const { return strips_; }

 private:
  template <typename Condition>
  bool Any(Condition condition) const {
    return std::ranges::any_of(by_first_, [&](const std::vector<AddedToken>& bucket) {
      return std::ranges::any_of(bucket, condition, &AddedToken::content);
    });
  }

  const AddedToken* Match(std::string_view text, size_t at) const {
    for (const AddedToken& token : by_first_[static_cast<uint8_t>(text[at])]) {
      if (text.compare(at, token.content.size(), token.content) == 0) return &token;
    }
    return nullptr;
  }

  std::array<std::vector<AddedToken>, 256> by_first_;
  bool strips_ = false;
};

}  // namespace plimsoll::data
