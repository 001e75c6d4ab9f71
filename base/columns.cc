#include "base/columns.h"

#include <algorithm>

namespace plimsoll {
namespace {

bool BeginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

}  // namespace

size_t Columns(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, BeginsCharacter));
}

std::string Shortened(std::string_view text, size_t columns) {
  if (Columns(text) <= columns) return std::string(text);
  size_t end = 0;
  for (size_t count = 0; end < text.size(); ++end) {
    if (BeginsCharacter(text[end]) && ++count == columns) break;
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string Wrapped(std::string_view text, size_t columns, std::string_view indent) {
  std::string lines;
  size_t used = 0;     // columns of the last line
  bool begun = false;  // whether the last line has a word
  while (!text.empty()) {
    // Takes a word together with the spaces before it.
    const size_t first = std::min(text.find_first_not_of(' '), text.size());
    const size_t end = std::min(text.find(' ', first), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(end);
    if (begun && used + Columns(word) > columns) {
      word.remove_prefix(first);
      lines += "\n";
      lines += indent;
      used = Columns(indent);
    }
    lines += word;
    used += Columns(word);
    begun = true;
  }
  return lines;
}

}  // namespace plimsoll
