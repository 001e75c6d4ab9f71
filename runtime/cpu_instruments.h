// Instruments of the CPU executor for tests and diagnosis: poison, arena measurement, finite
// check. All prepare their byte ranges once, so that even an instrumented run allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/program.h"
#include "runtime/layout.h"

namespace plimsoll::runtime {

// Start addresses of the two arenas.
struct ArenaBases {
  std::byte* device = nullptr;
  std::byte* host = nullptr;

  std::byte* of(graph::Place place) const { return place == graph::Place::kDevice ? device : host; }
};

// "node 12, linear in block.0.attn (inputs x f32[2,3], …; outputs …)".
std::string DescribeNode(const graph::Program& program, int node);

// For each node a list of byte ranges, stored flat.
class RangesByNode {
 public:
  struct Range {
    std::byte* begin;
    size_t bytes;
  };
  explicit RangesByNode(const std::vector<std::vector<Range>>& by_node);
  std::span<const Range> operator[](int node) const {
    return {ranges_.data() + starts_[node], ranges_.data() + starts_[node + 1]};
  }

 private:
  std::vector<Range> ranges_;
  std::vector<size_t> starts_;
};

// The temporaries that a node writes without having been able to read them: its outputs, except
// those in place of an input, and its workspace.
RangesByNode FreshRanges(const graph::Program& program, const Layout& layout, ArenaBases bases,
                         bool device_only = false);

// The temporaries that no node reads after this one, except those whose place an output took.
RangesByNode DyingRanges(const graph::Program& program, const Layout& layout, ArenaBases bases);

// Fills what must not be read with bytes that are NaN in every floating type.
class Poison {
 public:
  Poison(const graph::Program& program, const Layout& layout, ArenaBases bases)
      : fresh_(FreshRanges(program, layout, bases)), dying_(DyingRanges(program, layout, bases)) {}
  void BeforeNode(int node) { Fill(fresh_[node]); }
  void AfterNode(int node) { Fill(dying_[node]); }

 private:
  static void Fill(std::span<const RangesByNode::Range> ranges);

  RangesByNode fresh_;
  RangesByNode dying_;
};

// Measures the device arena: bytes are filled with a pattern that depends on address and run, and
// a buffer counts as used when any byte of it differs after its node has run.
class ArenaMeter {
 public:
  ArenaMeter(const graph::Program& program, const Layout& layout, ArenaBases bases);

  void BeforeRun();           // fills all but persistent tensors and inputs
  void BeforeNode(int node);  // fills what the node writes afresh
  void AfterNode(int node);
  // InternalError when a byte changed that belongs to no buffer of the program.
  void AfterRun();

  int64_t used_bytes() const { return used_bytes_; }

 private:
  struct Gap {
    int64_t begin, end;  // offsets
  };
  std::byte Pattern(int64_t offset) const;
  void Fill(int64_t begin, int64_t end);

  const graph::Program& program_;
  std::byte* base_;
  int64_t alignment_;
  RangesByNode fresh_;
  std::vector<Gap> gaps_;  // bytes above the persistent prefix that no buffer covers
  int64_t used_bytes_;
  uint64_t run_ = 0;
};

// InternalError naming node and tensor when a floating output of the node holds a NaN or infinity.
void CheckFinite(const graph::Program& program, int node, const Layout& layout, ArenaBases bases);

}  // namespace plimsoll::runtime
