// Examples of what adversarial training needs: binary cross-entropy and spectral normalization, in
// all ways in which kernels divide them.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const ExampleTable kExamples(R"(
  // With targets, of which some logits have none, and labels, of which every fifth row has none.
  binary_cross_entropy_with_logits "real"([3,7,5,1], f32[] positive) {target=1.0}
  binary_cross_entropy_with_logits "fake"([13], f32[] positive) {target=0.0}
  binary_cross_entropy_with_logits "one"([1], f32[] positive) {target=0.9}
  binary_cross_entropy_with_logits "chunks"([2,17,1000], f32[] positive) {target=0.9}
  binary_cross_entropy_with_logits "targets"([3,7,5], f32[] positive, f32[3,7,5] numbers)
  binary_cross_entropy_with_logits "targets, chunks"([33000], f32[] positive, f32[33000] numbers)
  binary_cross_entropy_with_logits "labels"([12,7,5,1], f32[] positive, _, [12] targets 3)
      {target=0.9}
  binary_cross_entropy_with_logits "targets, labels"([70,600], f32[] positive, f32[70,600] numbers,
      [70] targets 3)

  binary_cross_entropy_with_logits_backward "smoothed"([3,7,5,1], f32[] positive,
      compute[] positive) {target=0.9}
  binary_cross_entropy_with_logits_backward "packs"([4,1024,9], f32[] positive, compute[] positive)
      {target=1.0}
  binary_cross_entropy_with_logits_backward "one"([1], f32[] positive, compute[] positive)
      {target=0.0}
  binary_cross_entropy_with_logits_backward "targets"([3,7,5], f32[] positive, compute[] positive,
      f32[3,7,5] numbers)
  binary_cross_entropy_with_logits_backward "targets, packs"([2048], f32[] positive,
      compute[] positive, f32[2048] numbers)
  binary_cross_entropy_with_logits_backward "labels"([12,7,5,1], f32[] positive, compute[] positive,
      _, [12] targets 3) {target=0.9}
  binary_cross_entropy_with_logits_backward "targets, labels"([11,400], f32[] positive,
      compute[] positive, f32[11,400] numbers, [11] targets 3)

  power_iteration([5,3,3,7], f32[3,3,7])
  power_iteration "packs"([6,4,4,16], f32[4,4,16])
  power_iteration "chunks"([300,520], f32[520])
  power_iteration "a row"([1,1033], f32[1033])
  power_iteration "a column"([1100,1], f32[1])

  // Positive numbers, whose σ is far from 0.
  spectral_norm([5,3,3,7] positive, f32[5] positive, f32[3,3,7] positive)
  spectral_norm "packs"([6,4,4,16] positive, f32[6] positive, f32[4,4,16] positive)
  spectral_norm "a row"([1,13] positive, f32[1] positive, f32[13] positive)
  spectral_norm "large"([40,1028] positive, f32[40] positive, f32[1028] positive)

  spectral_norm_backward([5,3,3,7] positive, f32[5] positive, f32[3,3,7] positive,
      compute[] positive, compute[5,3,3,7])
  spectral_norm_backward "packs"([6,4,4,16] positive, f32[6] positive, f32[4,4,16] positive,
      compute[] positive, compute[6,4,4,16], compute[6,4,4,16])
  spectral_norm_backward "large"([40,1030] positive, f32[40] positive, f32[1030] positive,
      compute[] positive, compute[40,1030], compute[40,1030])
)");

}  // namespace
}  // namespace plimsoll::ops
