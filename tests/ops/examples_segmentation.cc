// Examples of the loss of segmentation, in all ways in which kernels divide voxels and classes.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const ExampleTable kExamples(R"(
  dice_loss([2,3,5,3], [2,3,5] targets 3, f32[] positive) {include_background=true, lambda_ce=0.0,
      lambda_dice=0.75, smooth_dr=0.5, smooth_nr=0.25, squared_pred=false}
  dice_loss "foreground"([3,2,3,3,4], [3,2,3,3] targets 4, f32[] positive)
      {include_background=false, lambda_ce=0.5, lambda_dice=0.75, smooth_dr=0.5, smooth_nr=0.25,
      squared_pred=false}
  dice_loss "squared"([2,7,2], [2,7] targets 2, f32[] positive) {include_background=true,
      lambda_ce=0.5, lambda_dice=0.75, smooth_dr=0.5, smooth_nr=0.25, squared_pred=true}
  // Rows of 8 voxels fill packs of every type.
  dice_loss "packs"([2,3,8,5], [2,3,8] targets 5, f32[] positive) {include_background=false,
      lambda_ce=0.5, lambda_dice=0.75, smooth_dr=0.5, smooth_nr=0.25, squared_pred=true}
  dice_loss "8 classes"([2,2,8,8], [2,2,8] targets 8, f32[] positive) {include_background=true,
      lambda_ce=1.0, lambda_dice=0.75, smooth_dr=0.5, smooth_nr=0.25, squared_pred=false}
  dice_loss "wide"([2,11,9], [2,11] targets 9, f32[] positive) {include_background=false,
      lambda_ce=0.5, lambda_dice=0.75, smooth_dr=0.5, smooth_nr=0.25, squared_pred=false}
  dice_loss "widest"([2,9,64], [2,9] targets 64, f32[] positive) {include_background=true,
      lambda_ce=0.5, lambda_dice=0.75, smooth_dr=0.5, smooth_nr=0.25, squared_pred=true}
  dice_loss "chunks"([2,17,16,32,3], [2,17,16,32] targets 3, f32[] positive)
      {include_background=false, lambda_ce=1.0, lambda_dice=0.75, smooth_dr=0.5, smooth_nr=0.25,
      squared_pred=false}

  dice_loss_backward([2,3,5,3], [2,3,5] targets 3, f32[] positive, compute[2,3,3] positive,
      compute[] positive) {include_background=true, lambda_ce=0.0, lambda_dice=0.75, smooth_dr=0.5,
      smooth_nr=0.25, squared_pred=false}
  dice_loss_backward "packs"([2,3,8,2], [2,3,8] targets 2, f32[] positive, compute[2,2,3] positive,
      compute[] positive) {include_background=false, lambda_ce=0.5, lambda_dice=0.75, smooth_dr=0.5,
      smooth_nr=0.25, squared_pred=true}
  dice_loss_backward "wide"([2,11,40], [2,11] targets 40, f32[] positive, compute[2,40,3] positive,
      compute[] positive) {include_background=false, lambda_ce=0.5, lambda_dice=0.75, smooth_dr=0.5,
      smooth_nr=0.25, squared_pred=true}
  dice_loss_backward "chunks"([2,4100,6], [2,4100] targets 6, f32[] positive,
      compute[2,6,3] positive, compute[] positive) {include_background=true, lambda_ce=1.0,
      lambda_dice=0.75, smooth_dr=0.5, smooth_nr=0.25, squared_pred=false}
)");

}  // namespace
}  // namespace plimsoll::ops
