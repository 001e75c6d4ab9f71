// Concatenation of two tensors along their channels: the skip connections of a U-Net (Ronneberger,
// Fischer, Brox 2015).
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// a[...,Ca] and b[...,Cb] → y[...,Ca+Cb]: the channels of a, then those of b. Any floating type,
// the same for both. Throws InternalError where types or the other dimensions differ, for no
// channels, and for 2^31 or more.
graph::Value ConcatChannels(graph::Builder& g, graph::Value a, graph::Value b,
                            std::string_view name = "");

}  // namespace plimsoll::ops
