// Checks a layout independently of how it was made: replays the programs on the bytes of the
// arenas, and tracks for each byte which tensor and which node wrote it last.
//
// - Every read finds all its bytes last written by that tensor (through any of its aliases).
// - Any two nodes that touch common bytes, one of them writing, are ordered.
// - A node's outputs and workspace overlap nothing else that it touches, except that an output may
//   exactly cover an input at a declared in-place pair, or surround one that is its own part.
// - Persistent bytes, of whichever program, are written only by nodes that name their tensor, and
//   lie at the same place in all programs. Those of kept tensors (memory/kept_tensors.h) may be
//   written by others as well; then no program reads such a tensor, of this step or the next,
//   before one has written it anew. So it is, too, whatever programs run between the steps.
// - Aliases lie within their base; offsets are aligned; nothing lies outside its arena.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "graph/program.h"
#include "memory/kept_tensors.h"
#include "memory/plan.h"
#include "runtime/layout.h"

namespace plimsoll::memory {

struct CheckOptions {
  int64_t alignment = 64;
  // Whether node `earlier` of that program (an index smaller than `later`) surely ends before node
  // `later` starts. Empty: always, because one stream runs the nodes in order.
  std::function<bool(const graph::Program&, int earlier, int later)> ordered;
  StepOrder order = {};
};

// `layouts` has one entry per program. Throws InternalError at the first violation, naming the
// nodes and tensors.
void CheckLayouts(std::span<const graph::Program* const> programs,
                  std::span<const runtime::Layout* const> layouts,
                  const CheckOptions& options = {});
void CheckPlan(std::span<const graph::Program* const> programs, const MemoryPlan& plan,
               const CheckOptions& options = {});

}  // namespace plimsoll::memory
