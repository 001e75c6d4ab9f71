// Finds the tokens that a text spells out, such as "<s>" or "[MASK]".
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

// A token that is found in a text before the text is cut into words, as Hugging Face's tokenizers
// know it.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool normalized = false;   // looked for in normalised text
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool single_word = false;  // found only where no word character touches it
};

// Finds occurrences of a set of tokens: the leftmost, and among these the longest.
class AddedTokenFinder {
 public:
  // `content` is what is looked for: the token's content, possibly normalised.
  void Add(std::string content, const AddedToken& token) {
    if (content.empty()) return;  // a normaliser may have removed all of it
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
  // takes is in no part.
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

  // Whether a token, begun before, may go on at a blank or a newline: one of them is within it.
  bool HaveBlanks() const {
    return Any([](const std::string& token) { return token.find_first_of(" \n") != token.npos; });
  }
  bool AnyEnds(std::string_view text) const {
    return Any([&](const std::string& token) { return text.ends_with(token); });
  }
  // Whether a token takes white space.
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
