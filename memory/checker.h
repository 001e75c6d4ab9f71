// Checks a layout independently of how it was made. The check replays the programs on the bytes of
// the arenas, and tracks for each byte which tensor and which node wrote it last. It checks these
// conditions:
//
// - When a node reads a tensor, each byte of the tensor was last written as part of this tensor or
//   of one of its aliases.
// - Two nodes that touch the same byte are ordered if one of them writes the byte.
// - The outputs and the workspace of a node overlap nothing else that the node touches. A declared
//   in-place pair is an exception: its output may have exactly the bytes of its input, or contain
//   the input if the input is this rank's own part of the output.
// - A persistent tensor has the same place in all programs, and only nodes that write this tensor
//   write its bytes. A kept tensor (memory/kept_tensors.h) is an exception: nodes that write other
//   tensors may write its bytes. After that, no program of this step or the next reads the kept
//   tensor before a program has written it anew, whatever programs run between the steps.
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
  // Whether node `earlier` of that program surely ends before node `later` starts; `earlier` is the
  // smaller index. Empty means always, because one stream runs the nodes in order.
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
