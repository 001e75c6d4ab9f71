// Examples of poolings, subsampling and space-to-depth: pixels of one channel, of channels that
// fill no pack of 16 bytes, and of whole packs.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const ExampleTable kExamples(R"(
  subsample([2,5,6,3]) {channels=7, stride=2}
  subsample "many channels, none new"([3,7,9,200]) {channels=200, stride=3}
  subsample "zeros on either side"([2,5,6,3]) {channels=7, first_channel=2, stride=2}
  subsample "zeros on either side, whole packs"([3,7,9,16]) {channels=32, first_channel=8, stride=2}
  subsample "zeros in front, no whole packs of x"([2,4,4,21])
      {channels=24, first_channel=3, stride=1}
  subsample_backward([2,3,3,7]) {d0=2, d1=5, d2=6, d3=3, rank=4, stride=2}
  subsample_backward "zeros on either side"([2,3,3,7])
      {d0=2, d1=5, d2=6, d3=3, first_channel=2, rank=4, stride=2}

  // Blocks of 2 × 2 pixels of 1 to 4 channels, which fill whole 16 bytes in 16 bits or in float32
  // (a GPU writes them pixel by pixel), or in neither; zeros on all sides, pixels that no block has.
  space_to_depth "3 channels, whole packs of 16 bits"([2,7,6,3])
      {block=2, channels=16, height=6, pad_h=3, pad_w=3, width=5}
  space_to_depth "3 channels, whole packs of float32"([2,7,6,3])
      {block=2, channels=12, height=4, pad_h=1, pad_w=2, width=6}
  space_to_depth "1 channel, whole packs of 16 bits"([2,5,6,1])
      {block=2, channels=8, height=4, pad_h=1, pad_w=0, width=3}
  space_to_depth "1 channel, whole packs of float32"([2,5,6,1])
      {block=2, channels=4, height=2, pad_h=0, pad_w=1, width=5}
  space_to_depth "2 channels, some left out"([2,9,8,2])
      {block=2, channels=8, height=2, pad_h=0, pad_w=0, width=3}
  space_to_depth "4 channels"([3,4,5,4])
      {block=2, channels=16, height=3, pad_h=1, pad_w=1, width=3}
  space_to_depth "5 channels, zeros behind"([2,4,5,5])
      {block=2, channels=23, height=3, pad_h=2, pad_w=1, width=4}
  space_to_depth "blocks of 3"([2,8,7,2])
      {block=3, channels=20, height=4, pad_h=4, pad_w=2, width=3}
  space_to_depth "rows of many blocks"([2,3,611,3])
      {block=2, channels=16, height=3, pad_h=1, pad_w=3, width=309} dtypes=f32,bf16,f16
  space_to_depth "a kernel"([5,7,7,3])
      {block=2, channels=16, height=4, pad_h=0, pad_w=0, width=4}
  space_to_depth_backward "3 channels, no whole packs"([2,6,5,16])
      {block=2, d0=2, d1=7, d2=6, d3=3, pad_h=3, pad_w=3, rank=4}
  space_to_depth_backward "whole packs, some left out"([2,2,3,8])
      {block=2, d0=2, d1=9, d2=8, d3=2, pad_h=1, pad_w=0, rank=4}
  space_to_depth_backward "blocks of 3"([2,4,3,20])
      {block=3, d0=2, d1=8, d2=7, d3=2, pad_h=4, pad_w=2, rank=4}
  space_to_depth_backward "rows of many blocks"([2,3,900,16])
      {block=2, d0=2, d1=5, d2=1800, d3=3, pad_h=1, pad_w=3, rank=4} dtypes=f32,bf16,f16

  // Windows of 3 × 3 that overlap and lie over the padding, and of 2 × 3 that leave elements out.
  // Large examples go without finite differences (f64).
  max_pool2d "overlapping, 6 channels"([2,7,9,6])
      {kernel_h=3, kernel_w=3, pad_h=1, pad_w=1, stride_h=2, stride_w=2}
  max_pool2d "whole packs"([2,6,5,16])
      {kernel_h=2, kernel_w=2, pad_h=0, pad_w=0, stride_h=2, stride_w=2}
  max_pool2d "apart, 1 channel"([3,8,10,1])
      {kernel_h=2, kernel_w=3, pad_h=0, pad_w=1, stride_h=3, stride_w=4}
  max_pool2d "several chunks"([3,33,31,40])
      {kernel_h=3, kernel_w=3, pad_h=1, pad_w=1, stride_h=2, stride_w=2} dtypes=f32,bf16,f16
  max_pool2d "larger windows, whole packs"([2,7,6,16])
      {kernel_h=4, kernel_w=3, pad_h=2, pad_w=0, stride_h=3, stride_w=1}
  max_pool2d_backward "overlapping, 6 channels"([2,4,5,6], u8[2,4,5,6] tokens 9)
      {h=7, kernel_h=3, kernel_w=3, pad_h=1, pad_w=1, stride_h=2, stride_w=2, w=9}
  max_pool2d_backward "whole packs, several chunks"([3,17,16,40], u8[3,17,16,40] tokens 9)
      {h=33, kernel_h=3, kernel_w=3, pad_h=1, pad_w=1, stride_h=2, stride_w=2, w=31}
  max_pool2d_backward "whole packs, even sizes"([2,4,6,8], u8[2,4,6,8] tokens 9)
      {h=8, kernel_h=3, kernel_w=3, pad_h=1, pad_w=1, stride_h=2, stride_w=2, w=12}
  max_pool2d_backward "side by side, whole packs"([2,4,3,16], u8[2,4,3,16] tokens 4)
      {h=9, kernel_h=2, kernel_w=2, pad_h=0, pad_w=0, stride_h=2, stride_w=2, w=7}
  max_pool2d_backward "larger windows, whole packs"([2,3,4,16], u8[2,3,4,16] tokens 12)
      {h=7, kernel_h=4, kernel_w=3, pad_h=2, pad_w=0, stride_h=3, stride_w=1, w=6}
  max_pool2d_backward "apart, 1 channel"([3,3,3,1], u8[3,3,3,1] tokens 6)
      {h=8, kernel_h=2, kernel_w=3, pad_h=0, pad_w=1, stride_h=3, stride_w=4, w=10}

  avg_pool2d "with padding, 6 channels"([2,7,9,6])
      {count_include_pad=true, kernel_h=3, kernel_w=3, pad_h=1, pad_w=1, stride_h=2, stride_w=2}
  avg_pool2d "without padding, whole packs"([2,6,5,16])
      {count_include_pad=false, kernel_h=3, kernel_w=3, pad_h=1, pad_w=1, stride_h=2, stride_w=2}
  avg_pool2d "apart, 1 channel"([3,8,10,1])
      {count_include_pad=false, kernel_h=2, kernel_w=3, pad_h=0, pad_w=1, stride_h=3, stride_w=4}
  avg_pool2d "several chunks"([3,33,31,40]) {count_include_pad=true, kernel_h=3, kernel_w=3,
      pad_h=1, pad_w=1, stride_h=2, stride_w=2} dtypes=f32,bf16,f16
  avg_pool2d_backward "with padding, 6 channels"([2,4,5,6]) {count_include_pad=true, h=7,
      kernel_h=3, kernel_w=3, pad_h=1, pad_w=1, stride_h=2, stride_w=2, w=9}
  avg_pool2d_backward "without padding, whole packs, several chunks"([3,17,16,40])
      {count_include_pad=false, h=33, kernel_h=3, kernel_w=3, pad_h=1, pad_w=1, stride_h=2,
      stride_w=2, w=31}
  avg_pool2d_backward "apart, 1 channel"([3,3,3,1]) {count_include_pad=false, h=8, kernel_h=2,
      kernel_w=3, pad_h=0, pad_w=1, stride_h=3, stride_w=4, w=10}

  global_avg_pool "6 channels"([2,5,7,6])
  global_avg_pool "whole packs, 1 pixel"([3,1,1,16])
  global_avg_pool "several tiles of channels"([40,7,7,520]) dtypes=f32,bf16,f16
  global_avg_pool "several parts of an image"([2,41,43,24]) dtypes=f32,bf16,f16
  global_avg_pool "several parts, 3 channels"([2,41,43,3]) dtypes=f32,bf16,f16
  global_avg_pool_backward "6 channels"([2,6]) {h=5, w=7}
  global_avg_pool_backward "whole packs, several chunks"([9,264]) {h=7, w=9}
)");

}  // namespace
}  // namespace plimsoll::ops
