// Examples of what networks with skip connections consist of besides convolutions: pixels of
// channels that fill no pack of 16 bytes, and of whole packs.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const ExampleTable kExamples(R"(
  concat_channels "3 and 5 channels"([2,3,4,3], [2,3,4,5])
  concat_channels "whole packs"([2,3,8], [2,3,16])
  concat_channels "several chunks, one part of whole packs"([2,17,19,64], [2,17,19,20])
      dtypes=f32,bf16,f16
  concat_channels_backward "3 and 5 channels"([2,3,4,8]) {first_channels=3}
  concat_channels_backward "3 and 5 channels, added"([2,3,4,8], [2,3,4,3], [2,3,4,5])
      {first_channels=3}
  concat_channels_backward "whole packs, the second added, several chunks"([31,37,40], _,
      [31,37,16]) {first_channels=24}

  resize "nearest, larger and smaller, 3 channels"([2,4,7,3])
      {align_corners=false, h=9, mode="nearest", w=5}
  resize "nearest, twice the volume, whole packs"([1,2,3,2,8])
      {align_corners=false, d=4, h=6, mode="nearest", w=4}
  resize "larger and smaller, 3 channels"([2,4,7,3]) {align_corners=false, h=9, mode="linear", w=5}
  resize "twice the image, whole packs"([2,3,4,16]) {align_corners=false, h=6, mode="linear", w=8}
  resize "aligned, 1 channel, to 1 row"([2,4,5,1]) {align_corners=true, h=1, mode="linear", w=8}
  resize "volumes, 5 channels, from 1 row"([2,3,1,4,5])
      {align_corners=false, d=5, h=3, mode="linear", w=2}
  resize "volumes, aligned, whole packs"([1,3,2,4,8])
      {align_corners=true, d=5, h=4, mode="linear", w=2}
  resize "twice the volume, whole packs"([2,2,3,1,8])
      {align_corners=false, d=4, h=6, mode="linear", w=2}
  resize "twice the volume, 3 channels"([1,3,2,3,3])
      {align_corners=false, d=6, h=4, mode="linear", w=6}
  resize "several chunks"([2,19,17,40]) {align_corners=false, h=38, mode="linear", w=34}
      dtypes=f32,bf16,f16

  resize_backward "nearest, larger and smaller, 3 channels"([2,9,5,3])
      {align_corners=false, h=4, mode="nearest", w=7}
  resize_backward "nearest, twice the volume, whole packs"([1,4,6,4,8])
      {align_corners=false, d=2, h=3, mode="nearest", w=2}
  resize_backward "larger and smaller, 3 channels"([2,9,5,3])
      {align_corners=false, h=4, mode="linear", w=7}
  resize_backward "twice the image, several chunks"([2,38,34,40])
      {align_corners=false, h=19, mode="linear", w=17}
  resize_backward "aligned, 1 channel, to 1 row"([2,1,8,1])
      {align_corners=true, h=4, mode="linear", w=5}
  resize_backward "twice the volume, whole packs"([2,4,6,8,16])
      {align_corners=false, d=2, h=3, mode="linear", w=4}
)");

}  // namespace
}  // namespace plimsoll::ops
