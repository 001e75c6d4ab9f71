// Finds the tokens that a text spells out, such as "<s>" or "[MASK]".
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::data {

// Finds occurrences of a set of strings: the leftmost, and among these the longest.
class AddedTokenFinder {
 public:
  void Add(std::string content, int32_t id) {
    auto& bucket = by_first_[static_cast<uint8_t>(content[0])];
    bucket.emplace_back(std::move(content), id);
  }
  void Sort() {
    for (auto& bucket : by_first_) {
      std::stable_sort(bucket.begin(), bucket.end(), [](const auto& a, const auto& b) {
        return a.first.size() > b.first.size();
      });
    }
  }

  // Calls text(part) and token(id) for the parts of `text`, in order.
  template <typename OnText, typename OnToken>
  void ForEach(std::string_view text, OnText on_text, OnToken on_token) const {
    size_t begin = 0;
    for (size_t i = 0; i < text.size();) {
      const Entry* found = Match(text, i);
      if (found == nullptr) {
        ++i;
        continue;
      }
      if (i > begin) on_text(text.substr(begin, i - begin));
      on_token(found->second);
      i += found->first.size();
      begin = i;
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

 private:
  using Entry = std::pair<std::string, int32_t>;

  template <typename Condition>
  bool Any(Condition condition) const {
    return std::ranges::any_of(by_first_, [&](const std::vector<Entry>& bucket) {
      return std::ranges::any_of(bucket, condition, &Entry::first);
    });
  }

  const Entry* Match(std::string_view text, size_t at) const {
    for (const Entry& entry : by_first_[static_cast<uint8_t>(text[at])]) {
      if (text.compare(at, entry.first.size(), entry.first) == 0) return &entry;
    }
    return nullptr;
  }

  std::array<std::vector<Entry>, 256> by_first_;
};

}  // namespace plimsoll::data
