// Max pooling on the GPU beyond the registry test: kernels that make blocks of pixels and kernels
// that make single channels have the CPU's bits.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/pooling/pool_window.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/ops/expect_tensor.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::Shape;

// Nothing is rounded before the end, and windows are added in one order.
TEST(CudaMaxPool2d, HasTheBitsOfTheCpu) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  const std::vector<Pool2d> windows = {Pool2d::Square(3, 2, 1), Pool2d::Square(2, 2),
                                       Pool2d::Square(3, 1, 1), Pool2d::Square(2, 2, 1),
                                       Pool2d::Square(4, 2, 1)};
  // 16 channels are whole packs, 5 are not.
  const std::vector<Shape> images = {
      {2, 8, 12, 16}, {3, 9, 7, 16}, {2, 4, 5, 16}, {2, 9, 8, 5}, {2, 56, 57, 64}};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const Pool2d& window : windows) {
      for (const Shape& shape : images) {
        SCOPED_TRACE(std::string(graph::Name(dtype)) + shape.ToString() + " window " +
                     std::to_string(window.kernel_h) + " stride " +
                     std::to_string(window.stride_h));
        const graph::Attributes attributes = ToAttributes(window);
        // Few values, so that there are ties.
        TestTensor x = NormalValues(dtype, shape, 1);
        for (int64_t i = 0; i < x.size(); i += 3) x.set(i, i % 2 == 0 ? 1 : -1);
        const auto want = RunOp("max_pool2d", {&x}, attributes);
        ExpectSameBits(RunCudaOp("max_pool2d", {&x}, libraries, attributes), want);
        ExpectSameBits(RunCudaOp("max_pool2d", {&x}, libraries, attributes, {true, false})[0],
                       want[0]);
        const TestTensor dy = NormalValues(dtype, want[0].type().shape, 2);
        const graph::Attributes backward = WithImageSize(attributes, shape);
        ExpectSameBits(RunCudaOp("max_pool2d_backward", {&dy, &want[1]}, libraries, backward),
                       RunOp("max_pool2d_backward", {&dy, &want[1]}, backward));
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
