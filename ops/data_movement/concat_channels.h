// Concatenation of two tensors along their channels: the skip connections of a U-Net (Ronneberger,
// Fischer, Brox 2015).
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// a[...,Ca] and b[...,Cb] → y[...,Ca+Cb]: the channels of a, then those of b. Both have the same
// floating type. Throws InternalError if types or the other dimensions differ, if there are no
// channels, and for 2^31 channels or more.
graph::Value ConcatChannels(graph::Builder& g, graph::Value a, graph::Value b,
                            std::string_view name = "");

}  // namespace plimsoll::ops
