#include "base/spelling.h"

#include <algorithm>

namespace plimsoll {

int EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = static_cast<int>(i);
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const int changed = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

std::string NearestName(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kLongest = 80;  // no misspelled name is longer
  if (word.size() > kLongest) return "";
  std::string best;
  int best_distance = static_cast<int>(std::max<size_t>(word.size() / 3, 1)) + 1;
  for (const std::string& candidate : candidates) {
    const int distance = EditDistance(word, candidate);
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string Shortened(const std::string& text) {
  constexpr size_t kBegin = 80, kEnd = 40;
  if (text.size() <= kBegin + kEnd) return text;
  const auto continues = [&](size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
  };
  size_t begin = kBegin, end = text.size() - kEnd;
  while (begin > 0 && continues(begin)) --begin;  // keeps UTF-8 characters complete
  while (end < text.size() && continues(end)) ++end;
  return text.substr(0, begin) + "…" + text.substr(end);
}

std::string ListOf(const std::vector<std::string>& names, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

}  // namespace plimsoll
