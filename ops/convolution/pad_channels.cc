#include "ops/convolution/pad_channels.h"

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "ops/data_movement/subsample.h"
#include "ops/data_movement/views.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::Node;
using graph::Shape;
using graph::Value;

constexpr int64_t kPixelBytes = 16;  // that tensor cores read whole

// The channels that the convolution is to have: its own, or more.
int64_t WantedChannels(const graph::Program& program, const Node& conv) {
  const graph::TensorType& x = program.tensor(conv.inputs[0]).type;
  const int64_t channels = x.shape.dim(-1);
  const bool tf32 = conv.attributes.Has("tf32") && conv.attributes.GetBool("tf32");
  if (conv.attributes.GetInt("groups") != 1 || (x.dtype == DType::kFloat32 && !tf32) ||
      x.dtype == DType::kFloat64) {
    return channels;
  }
  const int64_t step = kPixelBytes / graph::ByteSize(x.dtype);
  return (channels + step - 1) / step * step;
}

// x [..., C] with zeros behind its channels.
Value Padded(graph::Builder& g, Value x, int64_t channels, std::string_view name) {
  const Shape shape = g.shape(x);
  if (shape.rank() == 4) return Subsample(g, x, 1, channels, name);
  const Shape images = {shape.dim(0) * shape.dim(1), shape.dim(2), shape.dim(3), shape.dim(4)};
  const Value padded = Subsample(g, View(g, x, images), 1, channels, name);
  return View(g, padded, shape.WithLast(channels));
}

}  // namespace

graph::PassResult PadChannels::Run(graph::Program& program) {
  graph::Builder g(program);
  g.set_made_by("pad_channels");
  std::map<Value, Value> padded;  // by what had too few channels
  int convolutions = 0;
  for (Node& node : std::exchange(program.mutable_nodes(), {})) {
    if (node.op->name == "conv") {
      const int64_t channels = WantedChannels(program, node);
      if (channels != program.tensor(node.inputs[0]).type.shape.dim(-1)) {
        g.set_scope(node.scope);
        g.set_phase(node.phase);
        for (const auto& [i, name] : {std::pair{0, "padded"}, {1, "padded_weight"}}) {
          const auto [known, fresh] = padded.try_emplace(node.inputs[i], graph::kNoTensor);
          if (fresh) known->second = Padded(g, node.inputs[i], channels, name);
          node.inputs[i] = known->second;
        }
        ++convolutions;
      }
    }
    program.mutable_nodes().push_back(std::move(node));
  }
  return {convolutions > 0, fmt::format("{} convolutions", convolutions)};
}

}  // namespace plimsoll::ops
