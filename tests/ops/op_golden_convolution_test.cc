// Convolutions, and patches as a convolution whose stride is its kernel, compared with PyTorch.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "ops/definition.h"
#include "tests/ops/op_golden.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;

struct ConvolutionCase {
  std::string file;
  Attributes window;
};

const ConvolutionCase kConvolutionCases[] = {
    {"conv2d", {{"stride_h", 2}, {"pad_h", 2}, {"pad_w", 1}}},
    {"conv2d_pointwise", {}},
    {"conv2d_dilated_groups",
     {{"stride_w", 2},
      {"pad_h", 1},
      {"pad_w", 2},
      {"dilation_h", 2},
      {"dilation_w", 3},
      {"groups", 2}}},
    {"conv2d_depthwise",
     {{"stride_h", 2}, {"stride_w", 2}, {"pad_h", 1}, {"pad_w", 1}, {"groups", 10}}},
    {"conv3d", {{"stride_d", 2}, {"pad_d", 1}, {"pad_w", 1}, {"dilation_h", 2}}},
};

Attributes WithShape(Attributes attributes, const graph::Shape& shape) {
  SetShape(attributes, shape);
  return attributes;
}

TEST_P(GoldenTest, Convolution) {
  for (const auto& [file, window] : kConvolutionCases) {
    SCOPED_TRACE(file);
    Golden golden = Read(file);
    const HostTensor x = Make(golden["x"]), weight = Make(golden["weight"]),
                     dy = Make(golden["dy"]);
    const bool has_bias = golden.contains("bias");
    std::optional<HostTensor> bias;
    if (has_bias) bias = Make(golden["bias"]);
    ExpectNear(Call("conv", window, {x, weight, bias})[0], golden["y"]);

    const std::optional<HostTensor> none;
    ExpectNear(Call("conv_dx", WithShape(window, x.type.shape), {dy, weight, none})[0],
               golden["dx"]);
    const Outputs of_weight =
        Call("conv_dw", WithShape(window, weight.type.shape), {x, dy, none, none});
    ExpectNear(of_weight[0], golden["dweight"]);
    if (has_bias) ExpectNear(of_weight[1], golden["dbias"]);
  }
}

const ConvolutionCase kTransposedCases[] = {
    {"conv_transpose2d", {{"stride_h", 2}, {"pad_h", 1}}},
    {"conv_transpose2d_groups",
     {{"stride_h", 3}, {"stride_w", 2}, {"dilation_w", 2}, {"groups", 2}}},
    {"conv_transpose3d", {{"stride_d", 2}, {"stride_h", 2}, {"stride_w", 2}}},
};

// Its gradients are the convolution that it transposes, and that one's.
TEST_P(GoldenTest, TransposedConvolution) {
  for (const auto& [file, window] : kTransposedCases) {
    SCOPED_TRACE(file);
    Golden golden = Read(file);
    const HostTensor x = Make(golden["x"]), weight = Make(golden["weight"]),
                     bias = Make(golden["bias"]), dy = Make(golden["dy"]);
    ExpectNear(Call("conv_transpose", WithShape(window, dy.type.shape), {x, weight, bias})[0],
               golden["y"]);
    const std::optional<HostTensor> none;
    ExpectNear(Call("conv", window, {dy, weight, none})[0], golden["dx"]);
    ExpectNear(Call("conv_dw", WithShape(window, weight.type.shape), {dy, x, none, none})[0],
               golden["dweight"]);
  }
}

// The convolution's weight is a linear layer's, and its pixels are the tokens.
TEST_P(GoldenTest, Patches) {
  Golden golden = Read("patches");
  const HostTensor x = Make(golden["x"]), dy = Make(golden["dy"]);
  const graph::Shape kernel = golden["weight"].shape;
  golden["weight"].shape = {kernel.dim(0), kernel.dim(1) * kernel.dim(2) * kernel.dim(3)};
  const HostTensor weight = Make(golden["weight"]);
  const std::optional<HostTensor> none;

  const std::optional<HostTensor> patches = Call("patches", {{"size", 2}}, {x})[0];
  ExpectNear(Call("linear", {}, {patches, weight, Make(golden["bias"])})[0], golden["y"]);
  const std::optional<HostTensor> of_patches = Call("linear_dx", {}, {dy, weight, none})[0];
  ExpectNear(
      Call("patches_backward",
           {{"size", 2}, {"h", x.type.shape.dim(1)}, {"w", x.type.shape.dim(2)}}, {of_patches})[0],
      golden["dx"]);
  const Outputs of_weight = Call("linear_dw", {}, {patches, dy, none, none});
  ExpectNear(of_weight[0], golden["dweight"]);
  ExpectNear(of_weight[1], golden["dbias"]);
}

}  // namespace
}  // namespace plimsoll::ops
