// Collectives among the ranks of an axis of the mesh, in two halves so that the work between them
// can hide the transfer:
//
//   all_reduce_start      y = Σ over ranks of x; with {reduction="max"} the maximum of x, f32 and
//                         never negative, NaN if any of the values is NaN
//   reduce_scatter_start  y = this rank's part of Σ over ranks of x; part r of R is n/R elements
//                         beginning at r·n/R, in row-major order
//   all_gather_start      y = the x of all ranks, in the order of ranks
//   …_done                waits until y may be read; a view of y
//
// The transfer begins at start and has ended at done; between them its buffers stay alive, and no
// other node writes them. all_reduce_start overwrites x: y gets the memory of x when no other node
// reads x, which is the intended case. The other two have separate memory for y, and their done
// reads x too; or the x of all_gather_start is the rank's own part (own_part) of an existing y.
//
// Gradients: all_reduce passes on the gradient of y, which is the same on all ranks; reduce_scatter
// and all_gather are each other's gradients. A tensor that is the same on all ranks, but that they
// use differently, passes through
//
//   sum_gradient          y = x, a view; the gradient of x is the sum over ranks of that of y
//
// Views of parts:
//
//   own_part              y = this rank's part of x, a view: for tensors that are updated in parts
//   first_part            y = the first part of x, a view: of a tensor that all ranks have gathered
//
// All ranks run the same collectives in the same order: the program is the same on all of them.
#pragma once

#include <string_view>

#include "graph/builder.h"
#include "graph/op.h"
#include "graph/program.h"

namespace plimsoll::ops {

// The attributes of a start along an axis of the mesh (base/mesh.h). The first form is for
// all_reduce_start and sum_gradient; the second adds the result's shape, for the other starts.
graph::Attributes AlongAxis(std::string_view axis);
graph::Attributes AlongAxis(std::string_view axis, const graph::Shape& result);

// Emit a complete collective: start, directly followed by done. `axis` is the name of one of the
// mesh's axes (base/mesh.h). `shape` is the shape of y: it has n/R elements (reduce_scatter) or n·R
// (all_gather).
graph::Value AllReduce(graph::Builder& g, graph::Value x, std::string_view axis,
                       std::string_view name);
graph::Value ReduceScatter(graph::Builder& g, graph::Value x, std::string_view axis,
                           const graph::Shape& shape, std::string_view name);
graph::Value AllGather(graph::Builder& g, graph::Value x, std::string_view axis,
                       const graph::Shape& shape, std::string_view name);

// Whether a node of that op starts (IsCollective) or ends (IsCollectiveDone) a collective.
inline bool IsCollective(const graph::OpDef& op) {
  return op.transfer == graph::Transfer::kCollectiveStart;
}
inline bool IsCollectiveDone(const graph::OpDef& op) {
  return op.transfer == graph::Transfer::kCollectiveDone;
}

// Whether the node ends only if all ranks of its axis run it: it begins a collective, or itself
// reduces over ranks, as a loss over a sharded vocabulary does.
bool WaitsForRanks(const graph::Node& node);

// Whether the node gathers a parameter of which each rank holds a shard.
bool GathersParameter(const graph::Program& program, const graph::Node& node);

// Returns x itself; its gradient is summed over ranks.
graph::Value SumGradient(graph::Builder& g, graph::Value x, std::string_view axis,
                         std::string_view name);

// A view of this rank's part of x along the axis; `shape` has n/R elements.
graph::Value OwnPart(graph::Builder& g, graph::Value x, std::string_view axis,
                     const graph::Shape& shape, std::string_view name);

}  // namespace plimsoll::ops
