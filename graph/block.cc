#include "graph/block.h"

#include <charconv>

namespace plimsoll::graph {

int BlockOf(std::string_view scope) {
  constexpr std::string_view kPrefix = "block.";
  for (size_t at = scope.find(kPrefix); at != std::string_view::npos;
       at = scope.find(kPrefix, at + 1)) {
    if (at > 0 && scope[at - 1] != '.') continue;
    const char* first = scope.data() + at + kPrefix.size();
    const char* last = scope.data() + scope.size();
    int number = 0;
    const auto [end, error] = std::from_chars(first, last, number);
    if (error == std::errc() && number >= 0 && (end == last || *end == '.')) return number;
  }
  return kNoBlock;
}

}  // namespace plimsoll::graph
