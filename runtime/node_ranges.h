// The bytes of the arenas that each node of a program uses, for executors and their instruments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/program.h"
#include "ops/kernel.h"
#include "runtime/layout.h"

namespace plimsoll::runtime {

// Start addresses of the two arenas.
struct ArenaBases {
  std::byte* device = nullptr;
  std::byte* host = nullptr;

  std::byte* of(graph::Place place) const { return place == graph::Place::kDevice ? device : host; }
};

// A description of the node: "node 12, linear in block.0.attn (inputs x f32[2,3], …; outputs …)".
std::string DescribeNode(const graph::Program& program, int node);

// A list of byte ranges for each node. All lists are stored in one vector.
class RangesByNode {
 public:
  struct Range {
    std::byte* begin;
    size_t bytes;
  };
  explicit RangesByNode(const std::vector<std::vector<Range>>& by_node);
  size_t size() const { return ranges_.size(); }          // number of ranges of all nodes
  size_t first(int node) const { return starts_[node]; }  // index of the node's first range
  std::span<const Range> operator[](int node) const {
    return {ranges_.data() + starts_[node], ranges_.data() + starts_[node + 1]};
  }

 private:
  std::vector<Range> ranges_;
  std::vector<size_t> starts_;
};

// The temporaries that a node writes from scratch: its workspace, and its outputs except those that
// reuse an input's memory.
RangesByNode FreshRanges(const graph::Program& program, const Layout& layout, ArenaBases bases,
                         bool device_only = false);

// The temporaries, and carried tensors that end in this program, which a node is the last to read.
// Tensors whose memory an output of the node takes are left out.
RangesByNode DyingRanges(const graph::Program& program, const Layout& layout, ArenaBases bases);

// A range [begin, end) of the device arena above the persistent prefix that no tensor of the
// program covers.
struct Gap {
  int64_t begin, end;
};
std::vector<Gap> UncoveredGaps(const graph::Program& program, const Layout& layout);

// A tensor in the form that kernels get. Throws an InternalError naming the node if the tensor lies
// outside its arena. kNoTensor gives an empty TensorRef.
ops::TensorRef RefOf(const graph::Program& program, const Layout& layout, ArenaBases bases,
                     const graph::Node& node, graph::TensorId id);

// Checks a view, which does no work: throws InternalError unless its bytes are those of its base.
void CheckView(const graph::Program& program, const Layout& layout, ArenaBases bases, int node);

// Throws InternalError if arenas of these sizes cannot hold the layout, or if the layout belongs to
// another program.
void CheckLayoutFits(const graph::Program& program, const Layout& layout, int64_t arena_bytes,
                     int64_t host_arena_bytes);

}  // namespace plimsoll::runtime
