// Space-to-depth of images (ONNX SpaceToDepth; pixel unshuffle): blocks of pixels become pixels of
// more channels.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// Which pixels form a block, and the shape of the result, along height and width.
struct DepthBlocks {
  int64_t block = 2;                 // number of pixels along each side of a block
  std::array<int64_t, 2> pad = {};   // rows above x and columns left of it where block 0 begins
  std::array<int64_t, 2> size = {};  // number of blocks, which are the pixels of y
  int64_t channels = 0;              // number of channels of y
  friend auto operator<=>(const DepthBlocks&, const DepthBlocks&) = default;
};

// x[B,H,W,C] → y[B,size,channels], floating:
//   y[b,i,j,(u·block + v)·C + c] = x[b, i·block − pad[0] + u, j·block − pad[1] + v, c]
// for u, v < block. Channels are ordered as ONNX orders them. Elements outside of x count as zeros,
// and the channels from block²·C on are zeros. Pixels of x that are in no block are left out.
// Throws InternalError unless block ≥ 1, pad ≥ 0, size ≥ 1, 1 ≤ C, block²·C ≤ channels, and rows
// and columns of x and y have fewer than 2^30 elements.
graph::Value SpaceToDepth(graph::Builder& g, graph::Value x, const DepthBlocks& blocks,
                          std::string_view name = "");

}  // namespace plimsoll::ops
