// Examples of batch normalization: a few channels and many, one group of samples and several.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const ExampleTable kExamples(R"(
  batch_norm_statistics([3,5,4,7]) {groups=1}
  batch_norm_statistics "in groups"([4,30,16]) {groups=2}
  batch_norm_statistics "many rows and channels"([2,20,19,72]) {groups=1}
  batch_norm_statistics_backward "accumulating"([4,9,8], compute[2,8] small, compute[2,8],
      compute[2,8], [4,9,8])
  batch_norm_statistics_backward "of the variance alone"([3,5,7], compute[1,7] small, _,
      compute[1,7], _)

  merge_batch_norm_statistics([3,70], [3,70] positive) {n=5} dtypes=f32,f64
  merge_batch_norm_statistics_backward([2,9], [1,9], [1,9], [1,9]) dtypes=f32,f64
  merge_batch_norm_statistics_backward "of the variance alone"([4,5], [1,5], _, [1,5])
      dtypes=f32,f64

  merge_channel_statistics([3,12], [3,12] positive) {groups=4} dtypes=f32,f64
  merge_channel_statistics "of all channels"([2,70], [2,70] positive) {groups=1} dtypes=f32,f64
  merge_channel_statistics_backward([3,8], [3,8], [3,8], [3,8]) {groups=2} dtypes=f32,f64

  batch_norm([3,4,5,7], compute[1,7] small, compute[1,7] positive, compute[7], compute[7])
      {eps=1e-05}
  batch_norm "in groups"([6,5,16], compute[3,16] small, compute[3,16] positive, compute[16],
      compute[16]) {eps=0.001}
  batch_norm "relu"([3,20,24], compute[1,24] small, compute[1,24] positive, compute[24],
      compute[24]) {eps=1e-05, relu=true}
  batch_norm "leaky relu, of single samples"([3,4,5,2,32], compute[3,32] small,
      compute[3,32] positive, compute[32], compute[32]) {eps=1e-05, relu=true, slope=0.01}
  batch_norm "residual"([3,4,5,7], compute[1,7] small, compute[1,7] positive, compute[7],
      compute[7], [3,4,5,7]) {eps=1e-05}
  batch_norm "residual, relu, in groups"([4,9,24], compute[2,24] small, compute[2,24] positive,
      compute[24], compute[24], [4,9,24]) {eps=1e-05, relu=true}
  batch_norm "residual, relu, rows that end within a byte"([5,20,12], compute[1,12] small,
      compute[1,12] positive, compute[12], compute[12], [5,20,12]) {eps=1e-05, relu=true}
  batch_norm_residual_backward "accumulating, in groups"([4,50,24], u8[4,50,3] bits, [4,50,24],
      compute[2,24] small, compute[2,24] positive, compute[24], [4,50,24], compute[24], compute[24])
      {eps=1e-05} low_precision_tolerance=1
  batch_norm_residual_backward "written"([3,20,19,7], u8[3,20,19,1] bits, [3,20,19,7],
      compute[1,7] small, compute[1,7] positive, compute[7], _, _, _) {eps=1e-05}
      low_precision_tolerance=1
  batch_norm_residual_backward "rows that end within a byte"([3,70,12], u8[3,70,2] bits, [3,70,12],
      compute[1,12] small, compute[1,12] positive, compute[12], _, _, _) {eps=1e-05}
      low_precision_tolerance=1
  batch_norm_backward "accumulating, in groups"([4,50,24], [4,50,24], compute[2,24] small,
      compute[2,24] positive, compute[24], [4,50,24], compute[24], compute[24]) {eps=1e-05}
  batch_norm_backward "written"([3,4,5,7], [3,4,5,7], compute[1,7] small, compute[1,7] positive,
      compute[7], _, _, _) {eps=1e-05}

  batch_norm_backward "through the statistics, relu"([4,30,24], [4,30,24], compute[2,24] small,
      compute[2,24] positive, compute[24], [4,30,24], _, _, compute[24])
      {eps=1e-05, relu=true, through_statistics=true}
  batch_norm_backward "through the statistics, leaky relu, of single samples"([2,3,5,4,32],
      [2,3,5,4,32], compute[2,32] small, compute[2,32] positive, compute[32], _, _, _, compute[32])
      {eps=1e-05, relu=true, slope=0.2, through_statistics=true} low_precision_tolerance=1
  batch_norm_backward "relu"([3,4,5,7], [3,4,5,7], compute[1,7] small, compute[1,7] positive,
      compute[7], _, _, _, compute[7]) {eps=1e-05, relu=true}
)");

}  // namespace
}  // namespace plimsoll::ops
