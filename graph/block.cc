#include "graph/block.h"

#include <charconv>

namespace plimsoll::graph {

std::string_view BlockIn(std::string_view scope) {
  constexpr std::string_view kPrefix = "block.";
  for (size_t at = scope.find(kPrefix); at != std::string_view::npos;
       at = scope.find(kPrefix, at + 1)) {
    if (at > 0 && scope[at - 1] != '.') continue;
    const char* first = scope.data() + at + kPrefix.size();
    const char* last = scope.data() + scope.size();
    int number = 0;
    const auto [end, error] = std::from_chars(first, last, number);
    if (error == std::errc() && number >= 0 && (end == last || *end == '.')) {
      return scope.substr(0, static_cast<size_t>(end - scope.data()));
    }
  }
  return {};
}

Blocks::Blocks(const Program& program) {
  for (const Node& node : program.nodes()) {
    const std::string_view block = BlockIn(node.scope);
    if (block.empty() || numbers_.find(block) != numbers_.end()) continue;
    numbers_.emplace(block, static_cast<int>(names_.size()));
    names_.emplace_back(block);
  }
}

int Blocks::Of(std::string_view scope) const {
  const auto found = numbers_.find(BlockIn(scope));
  return found == numbers_.end() ? kNoBlock : found->second;
}

}  // namespace plimsoll::graph
