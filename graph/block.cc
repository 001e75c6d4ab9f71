#include "graph/block.h"

#include <charconv>
#include <unordered_map>

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

BlockName ParseBlock(std::string_view block) {
  const size_t dot = block.rfind('.');
  BlockName name{.kind = std::string(block.substr(0, dot))};
  std::from_chars(block.data() + dot + 1, block.data() + block.size(), name.number);
  return name;
}

Blocks::Blocks(const Program& program) {
  std::unordered_map<std::string_view, int> numbers;
  std::string_view last;
  int number = kNoBlock;
  of_nodes_.reserve(program.nodes().size());
  for (const Node& node : program.nodes()) {
    // Most nodes are in the same block as the node before.
    if (const std::string_view block = BlockIn(node.scope); block != last) {
      last = block;
      number = kNoBlock;
      if (!block.empty()) {
        const auto [found, fresh] = numbers.emplace(block, static_cast<int>(names_.size()));
        if (fresh) names_.emplace_back(block);
        number = found->second;
      }
    }
    of_nodes_.push_back({node.phase != Phase::kForward, number});
  }
}

}  // namespace plimsoll::graph
