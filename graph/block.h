// Blocks of a model: its scopes "block.N", at any depth ("block.3", "critic.block.0",
// "stage.2.block.5"). Passes use them to tell where in the model a node is. Blocks may differ in
// shape.
#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "graph/program.h"

namespace plimsoll::graph {

inline constexpr int kNoBlock = -1;

// The outermost block that contains a scope: "block.3" for "block.3.attn"; empty outside any block.
std::string_view BlockIn(std::string_view scope);

// The parts of a block's name: "critic.block" and 3 for "critic.block.3".
struct BlockName {
  std::string kind;
  int number = 0;
};
BlockName ParseBlock(std::string_view block);

// A block in one direction, in any micro-step. Every phase but forward counts as backward:
// recomputed nodes, and updates within the backward pass.
struct DirectedBlock {
  bool backward = false;
  int block = kNoBlock;
  auto operator<=>(const DirectedBlock&) const = default;
};

// The blocks of a program, numbered in the order in which its nodes first enter them, from 0.
class Blocks {
 public:
  explicit Blocks(const Program& program);

  // The block of a node, given the node's index in the program; kNoBlock outside any block.
  int Of(size_t node) const { return of_nodes_[node].block; }
  DirectedBlock DirectedOf(size_t node) const { return of_nodes_[node]; }
  int count() const { return static_cast<int>(names_.size()); }
  const std::string& name(int block) const { return names_.at(static_cast<size_t>(block)); }

 private:
  std::vector<DirectedBlock> of_nodes_;
  std::vector<std::string> names_;
};

}  // namespace plimsoll::graph
