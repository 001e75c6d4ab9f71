// Collectives among the ranks of an axis of the mesh, in two halves so that the work between them
// can hide the transfer:
//
//   all_reduce_start  y = Σ over ranks of x; begun here, at the latest done at all_reduce_done
//   all_reduce_done   y may be read from here on; a view of y
//
// x is overwritten: y has its memory when nothing else reads x, as is meant, and every reader of
// the sum reads what all_reduce_done gives, so the memory is alive, and untouched by others, until
// then. All ranks run the same collectives in the same order.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/attributes.h"
#include "ops/communicator.h"

namespace plimsoll::ops {

// Dimensions of the mesh of ranks.
enum class Axis : uint8_t { kData, kTensor };

std::string_view Name(Axis axis);  // "data", "tensor": the attribute "axis" of collectives
Axis AxisOf(const graph::Attributes& attributes);

// This rank's communicators, one for each axis; nullptr: the rank is alone there.
struct AxisCommunicators {
  Communicator* data = nullptr;
  Communicator* tensor = nullptr;

  Communicator* Of(Axis axis) const { return axis == Axis::kData ? data : tensor; }
};

}  // namespace plimsoll::ops
