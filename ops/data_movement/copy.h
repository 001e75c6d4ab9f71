// Copies between the device's memory and the host's, in two halves so that the work between them
// can hide the copy:
//
//   copy_start  y = x, in the other place; begins here and has ended at copy_done
//   copy_done   from here on y may be read and x may be overwritten; a view of y
//
// A buffer that a copy reads or writes is alive, and untouched by others, from start to done:
// copy_done reads both.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// Any type. y is named SCOPE.NAME and lies in `to`.
graph::Value CopyStart(graph::Builder& g, graph::Value x, graph::Place to, std::string_view name);

// `y` is what CopyStart(x) gave. Returns the tensor to read.
graph::Value CopyDone(graph::Builder& g, graph::Value y, graph::Value x, std::string_view name);

}  // namespace plimsoll::ops
