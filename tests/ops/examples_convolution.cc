// Examples of convolutions: odd sizes, strides that leave taps out, and channels that fill no
// vector.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const ExampleTable kExamples(R"(
  conv "3×3 with bias"([2,6,5,3], [4,3,3,3], [4])
      {dilation_h=1, dilation_w=1, groups=1, pad_h=1, pad_w=1, stride_h=1, stride_w=1}
  conv "pointwise"([2,4,5,8], [16,1,1,8], _)
      {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=1, stride_w=1}
  conv "pointwise, stride 2"([2,7,6,8], [8,1,1,8], _)
      {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=2, stride_w=2}
  conv "7×7, stride 2"([1,13,12,3], [5,7,7,3], [5])
      {dilation_h=1, dilation_w=1, groups=1, pad_h=3, pad_w=3, stride_h=2, stride_w=2}
  // What stems become (ops/convolution/pad_channels.h).
  conv "4×4, 16 channels, no padding"([2,9,10,16], [8,4,4,16], [8])
      {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=1, stride_w=1}
  conv "2×2, 12 channels, no padding"([2,6,5,12], [8,2,2,12], _)
      {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=1, stride_w=1}
  conv_dx "2×2, no padding"([2,5,4,8], [8,2,2,16], _) {d0=2, d1=6, d2=5, d3=16, dilation_h=1,
      dilation_w=1, groups=1, pad_h=0, pad_w=0, rank=4, stride_h=1, stride_w=1}
  conv_dw "4×4, no padding"([2,9,10,16], [2,6,7,8], _, _) {d0=8, d1=4, d2=4, d3=16, dilation_h=1,
      dilation_w=1, groups=1, pad_h=0, pad_w=0, rank=4, stride_h=1, stride_w=1} cuda_tolerance=1
  conv "patches"([2,8,12,3], [16,4,4,3], [16])
      {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=4, stride_w=4}
  // On a CPU the last block of rows needs more scratch memory than the whole one before it.
  conv "more rows than a block"([8,28,28,16], [16,3,3,16], _) {dilation_h=1, dilation_w=1, groups=1,
      pad_h=1, pad_w=1, stride_h=1, stride_w=1} dtypes=bf16,f16
  conv "2 groups, dilated, unequal strides"([2,9,8,6], [4,3,2,3], [4])
      {dilation_h=2, dilation_w=3, groups=2, pad_h=2, pad_w=0, stride_h=2, stride_w=1}
  conv "depthwise"([2,5,6,8], [8,3,3,1], _)
      {dilation_h=1, dilation_w=1, groups=8, pad_h=1, pad_w=1, stride_h=1, stride_w=1}
  conv "volume"([1,4,5,3,2], [3,3,2,2,2], [3]) {dilation_w=2, pad_d=1, pad_h=1, stride_d=2}

  conv_dx "accumulating"([2,6,5,16], [16,3,3,8], [2,6,5,8]) {d0=2, d1=6, d2=5, d3=8, dilation_h=1,
      dilation_w=1, groups=1, pad_h=1, pad_w=1, rank=4, stride_h=1, stride_w=1}
  conv_dx "stride 2"([2,4,3,5], [5,3,3,7], _) {d0=2, d1=7, d2=6, d3=7, dilation_h=1, dilation_w=1,
      groups=1, pad_h=1, pad_w=1, rank=4, stride_h=2, stride_w=2}
  conv_dx "stride beyond the kernel"([2,2,3,4], [4,1,2,3], [2,5,9,3]) {d0=2, d1=5, d2=9, d3=3,
      dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, rank=4, stride_h=3, stride_w=3}

  // Three classes for each pixel: too narrow for tensor cores.
  conv "pointwise, few outputs"([2,9,13,3,32], [3,1,1,1,32], [3])
  conv_dx "pointwise, few outputs"([2,9,13,6], [6,1,1,64], [2,9,13,64])
      {d0=2, d1=9, d2=13, d3=64, rank=4}
  conv_dw "pointwise, few outputs"([2,9,43,32], [2,9,43,3], compute[3,1,1,32], compute[3])
      {d0=3, d1=1, d2=1, d3=32, rank=4}
  conv_transpose "tiles, with bias"([2,4,3,16], [16,3,2,8], [8])
      {d0=2, d1=12, d2=6, d3=8, rank=4, stride_h=3, stride_w=2}
  conv_transpose "stride 2, one pixel more"([2,4,3,6], [6,3,3,8], [8]) {d0=2, d1=8, d2=6, d3=8,
      dilation_h=1, dilation_w=1, groups=1, pad_h=1, pad_w=1, rank=4, stride_h=2, stride_w=2}
  conv_transpose "few channels"([3,5,4,16], [16,4,4,3], [3]) {d0=3, d1=10, d2=8, d3=3, dilation_h=1,
      dilation_w=1, groups=1, pad_h=1, pad_w=1, rank=4, stride_h=2, stride_w=2}
  conv_transpose "volume of few channels"([2,2,3,2,8], [8,3,2,2,5], _)
      {d0=2, d1=4, d2=6, d3=4, d4=5, rank=5, stride_h=2, stride_w=2}
  conv_transpose "volume"([2,2,3,2,16], [16,2,2,2,8], _)
      {d0=2, d1=4, d2=6, d3=4, d4=8, rank=5, stride_d=2, stride_h=2, stride_w=2}
  conv_transpose "2 groups, dilated"([1,5,4,6], [6,2,3,2], [4])
      {d0=1, d1=14, d2=8, d3=4, dilation_w=2, groups=2, rank=4, stride_h=3, stride_w=1}
  // cuDNN rounds dweight to the type of x: cuda_tolerance.
  conv_dw "accumulating"([2,7,6,8], [2,4,3,16], compute[16,3,3,8], compute[16]) {d0=16, d1=3, d2=3,
      d3=8, dilation_h=1, dilation_w=1, groups=1, pad_h=1, pad_w=1, rank=4, stride_h=2, stride_w=2}
      cuda_tolerance=1
  conv_dw "written"([3,5,5,3], [3,5,5,4], _, _) {d0=4, d1=3, d2=3, d3=3, dilation_h=1, dilation_w=1,
      groups=1, pad_h=1, pad_w=1, rank=4, stride_h=1, stride_w=1} cuda_tolerance=1
)");

}  // namespace
}  // namespace plimsoll::ops
