// Blocks of a model: the scopes "block.N", by which passes tell where in the model a node is.
#pragma once

#include <string_view>

namespace plimsoll::graph {

inline constexpr int kNoBlock = -1;

// 3 for "block.3" and "block.3.attn"; kNoBlock outside any block.
int BlockOf(std::string_view scope);

}  // namespace plimsoll::graph
