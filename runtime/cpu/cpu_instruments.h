// Instruments of the CPU executor for tests and diagnosis: poison, arena measurement, finite check.
// All instruments compute their byte ranges once, so that even an instrumented run allocates
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/program.h"
#include "runtime/layout.h"
#include "runtime/node_ranges.h"

namespace plimsoll::runtime {

// Fills bytes that must not be read with a pattern that is NaN in every floating type.
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

// Measures the used part of the device arena by filling bytes with a pattern that depends on
// address and run. A buffer counts as used if any of its bytes differs from the pattern after its
// node has run. Buffers below the end of the used part are not filled, since they would not change
// the result.
class ArenaMeter {
 public:
  ArenaMeter(const graph::Program& program, const Layout& layout, ArenaBases bases);

  void BeforeRun();           // fills all but persistent tensors and inputs
  void BeforeNode(int node);  // fills the node's fresh outputs and workspace
  void AfterNode(int node);
  // Throws InternalError if a byte changed that belongs to no buffer of the program.
  void AfterRun();

  int64_t used_bytes() const { return used_bytes_; }

 private:
  static constexpr int64_t kWord = 8;  // bytes of the pattern that are written at once

  struct Offsets {
    int64_t begin, end, rounded;  // rounded: end, rounded up to the alignment
  };
  Offsets OffsetsOf(const RangesByNode::Range& range) const;

  uint64_t Word(int64_t index) const;
  std::byte Byte(int64_t offset) const;
  void Fill(int64_t begin, int64_t end);
  // The first byte that differs from the pattern; `end` if all bytes equal it.
  int64_t FirstChanged(int64_t begin, int64_t end) const;

  const graph::Program& program_;
  std::byte* base_;
  int64_t alignment_;
  RangesByNode fresh_;
  std::vector<Gap> gaps_;  // bytes above the persistent prefix that no buffer covers
  int64_t used_bytes_;
  uint64_t run_ = 0;
};

// Throws a UserError naming node and tensor if a floating-point output of the node holds a NaN or
// an infinity.
void CheckFinite(const graph::Program& program, int node, const Layout& layout, ArenaBases bases);

}  // namespace plimsoll::runtime
