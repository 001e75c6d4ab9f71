// Copies between the device's memory and the host's, in two halves so that the work between them
// can hide the copy:
//
//   copy_start  y = x, in the other memory; the copy begins here and has ended at copy_done
//   copy_done   waits until y may be read and x may be overwritten; a view of y
//
// From start to done, the buffers that a copy reads or writes are alive, and no other node writes
// them: copy_done reads both.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// Copies x, of any type. y is named SCOPE.NAME and is in the memory `to`.
graph::Value CopyStart(graph::Builder& g, graph::Value x, graph::Place to, std::string_view name);

// `y` is the result of CopyStart(x). Returns the tensor to read.
graph::Value CopyDone(graph::Builder& g, graph::Value y, graph::Value x, std::string_view name);

}  // namespace plimsoll::ops
