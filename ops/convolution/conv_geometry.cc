#include "ops/convolution/conv_geometry.h"

#include <string>
#include <vector>

#include "ops/definition.h"

namespace plimsoll::ops {

using graph::Check;
using graph::OpCall;
using graph::Shape;

namespace {

constexpr const char* kAxes[3] = {"d", "h", "w"};

// Reads the attributes NAME_d, NAME_h and NAME_w, beginning with number `first` of these.
Spatial FromAttributes(const OpCall& call, const std::string& name, int64_t fallback, size_t first,
                       int64_t least) {
  Spatial values = {fallback, fallback, fallback};
  for (size_t i = first; i < 3; ++i) {
    const std::string key = name + "_" + kAxes[i];  // short enough not to allocate memory
    if (call.attributes.Has(key)) values[i] = call.attributes.GetInt(key);
    Check(values[i] >= least, call, "a stride, padding or dilation is too small");
  }
  return values;
}

}  // namespace

ConvGeometry GeometryOf(const OpCall& call, const Shape& x, const Shape& weight) {
  Check((x.rank() == 4 || x.rank() == 5) && weight.rank() == x.rank(), call,
        "needs x[B,H,W,I] and weight[O,R,S,I/G], or volumes");
  const size_t rank = x.rank(), first = rank == 4 ? 1 : 0;
  ConvGeometry g;
  g.batch = x.dim(0);
  g.in_channels = x.dim(-1);
  g.out_channels = weight.dim(0);
  g.groups = call.attributes.Has("groups") ? call.attributes.GetInt("groups") : 1;
  Check(g.groups >= 1 && g.in_channels % g.groups == 0 && g.out_channels % g.groups == 0, call,
        "groups do not divide the channels");
  Check(weight.dim(-1) == g.group_in(), call, "weight's last dimension is not I/G");
  g.stride = FromAttributes(call, "stride", 1, first, 1);
  g.pad = FromAttributes(call, "pad", 0, first, 0);
  g.dilation = FromAttributes(call, "dilation", 1, first, 1);
  for (size_t i = first; i < 3; ++i) {
    const int at = static_cast<int>(i - first) + 1;
    g.in[i] = x.dim(at);
    g.kernel[i] = weight.dim(at);
    const int64_t reach = (g.kernel[i] - 1) * g.dilation[i] + 1;
    Check(g.kernel[i] >= 1 && g.in[i] + 2 * g.pad[i] >= reach, call,
          "the kernel is larger than the padded input");
    g.out[i] = (g.in[i] + 2 * g.pad[i] - reach) / g.stride[i] + 1;
  }
  return g;
}

ConvGeometry GeometryOf(const OpCall& call) {
  if (call.op.name == "conv_dx" || call.op.name == "conv_transpose") {
    return GeometryOf(call, GetShape(call.attributes), call.input(1).shape);
  }
  if (call.op.name == "conv_dw") {
    return GeometryOf(call, call.input(0).shape, GetShape(call.attributes));
  }
  return GeometryOf(call, call.input(0).shape, call.input(1).shape);
}

Shape OutputShape(const ConvGeometry& g, size_t rank) {
  std::vector<int64_t> dims = {g.batch};
  for (size_t i = rank == 4 ? 1 : 0; i < 3; ++i) dims.push_back(g.out[i]);
  dims.push_back(g.out_channels);
  return Shape(std::span<const int64_t>(dims));
}

}  // namespace plimsoll::ops
