#include "ops/convolution/pad_channels.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/amounts.h"
#include "graph/builder.h"
#include "ops/convolution/conv_geometry.h"
#include "ops/data_movement/space_to_depth.h"
#include "ops/data_movement/subsample.h"
#include "ops/data_movement/views.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::Node;
using graph::Shape;
using graph::Value;

constexpr int64_t kPixelBytes = 16;  // the bytes that tensor cores read at once
constexpr int64_t kBlock = 2;
constexpr int64_t kMostBlockChannels = 16;

// How x and weight get more channels. With blocks of 1, channels of zeros are added: `pad` and
// `size` are not used.
struct Rewrite {
  DepthBlocks x, weight;
};

bool UsesTensorCores(const Node& conv, DType dtype) {
  const bool tf32 = conv.attributes.Has("tf32") && conv.attributes.GetBool("tf32");
  return dtype == DType::kFloat32 ? tf32 : dtype != DType::kFloat64;
}

// The number of channels, rounded up to a multiple of 16 bytes.
int64_t WholeChannels(int64_t channels, DType dtype) {
  const int64_t step = kPixelBytes / graph::ByteSize(dtype);
  return (channels + step - 1) / step * step;
}

// Whether the image has few channels, and each of 2 × 2 pixels meets different taps.
bool FitsBlocks(const ConvGeometry& g, size_t rank) {
  if (rank != 4 || g.in_channels * kBlock * kBlock > kMostBlockChannels) return false;
  for (const size_t i : {1, 2}) {
    if (g.stride[i] != kBlock || g.dilation[i] != 1 || g.kernel[i] < 2) return false;
  }
  return true;
}

// The rewrite of a convolution; nullopt: none is needed, or none helps.
std::optional<Rewrite> RewriteOf(const graph::Program& program, const Node& conv) {
  const graph::TensorType& x = program.tensor(conv.inputs[0]).type;
  const ConvGeometry g = GeometryOf(program.CallOf(conv).get());
  if (g.groups != 1 || !UsesTensorCores(conv, x.dtype)) return std::nullopt;
  if (FitsBlocks(g, x.shape.rank())) {
    const int64_t channels = WholeChannels(g.in_channels * kBlock * kBlock, x.dtype);
    DepthBlocks images{.block = kBlock, .pad = {g.pad[1], g.pad[2]}, .channels = channels};
    DepthBlocks kernels{.block = kBlock, .channels = channels};
    for (const size_t i : {0, 1}) {
      kernels.size[i] = (g.kernel[i + 1] + kBlock - 1) / kBlock;
      images.size[i] = g.out[i + 1] + kernels.size[i] - 1;
    }
    return Rewrite{images, kernels};
  }
  const DepthBlocks padded{.block = 1, .channels = WholeChannels(g.in_channels, x.dtype)};
  if (padded.channels == g.in_channels) return std::nullopt;
  return Rewrite{padded, padded};
}

// x [..., C] with zeros after its channels.
Value Padded(graph::Builder& g, Value x, int64_t channels, std::string_view name) {
  const Shape shape = g.shape(x);
  if (shape.rank() == 4) return Subsample(g, x, 1, channels, name);
  const Shape images = {shape.dim(0) * shape.dim(1), shape.dim(2), shape.dim(3), shape.dim(4)};
  const Value padded = Subsample(g, View(g, x, images), 1, channels, name);
  return View(g, padded, shape.WithLast(channels));
}

// Rewrites convolutions. A tensor that several convolutions read is rewritten once.
class Rewriter {
 public:
  explicit Rewriter(graph::Program& program) : g_(program) { g_.set_made_by("pad_channels"); }

  void Apply(const Rewrite& rewrite, Node& conv) {
    g_.set_scope(conv.scope);
    g_.set_phase(conv.phase);
    conv.inputs[0] = WithChannels(conv.inputs[0], rewrite.x, "padded");
    conv.inputs[1] = WithChannels(conv.inputs[1], rewrite.weight, "padded_weight");
    if (rewrite.x.block == 1) return;
    for (const char* stride : {"stride_h", "stride_w"}) conv.attributes.Set(stride, int64_t{1});
    for (const char* pad : {"pad_h", "pad_w"}) conv.attributes.Set(pad, int64_t{0});
  }

 private:
  Value WithChannels(Value from, const DepthBlocks& blocks, std::string_view name) {
    const auto [known, fresh] = made_.try_emplace({from, blocks}, graph::kNoTensor);
    if (fresh) {
      known->second = blocks.block == 1 ? Padded(g_, from, blocks.channels, name)
                                        : SpaceToDepth(g_, from, blocks, name);
    }
    return known->second;
  }

  graph::Builder g_;
  std::map<std::pair<Value, DepthBlocks>, Value> made_;
};

}  // namespace

graph::PassResult PadChannels::Run(graph::Program& program) {
  Rewriter rewriter(program);
  int convolutions = 0;
  for (Node& node : std::exchange(program.mutable_nodes(), {})) {
    if (node.op->name == "conv") {
      if (const auto rewrite = RewriteOf(program, node)) {
        rewriter.Apply(*rewrite, node);
        ++convolutions;
      }
    }
    program.mutable_nodes().push_back(std::move(node));
  }
  return {convolutions > 0, Counted(convolutions, "convolution")};
}

}  // namespace plimsoll::ops
