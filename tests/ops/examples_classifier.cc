// Examples of the loss of a classifier, and of counting what it gets right.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const ExampleTable kExamples(R"(
  cross_entropy([3,5,7], [3,5] targets 7, f32[] positive) {label_smoothing=0.0}
  cross_entropy "smoothed labels, many classes"([37,130], [37] targets 130, f32[] positive)
      {label_smoothing=0.1}
  cross_entropy_backward([9,40] small, [9] targets 40, f32[] positive, compute[9] positive,
      compute[] positive) {label_smoothing=0.1}

  cross_entropy "two labels"([11,7], [11] targets 7, f32[] positive, [11] targets 7,
      f32[11] positive) {label_smoothing=0.1}
  cross_entropy_backward "two labels"([9,40] small, [9] targets 40, f32[] positive,
      compute[9] positive, compute[] positive, [9] targets 40, f32[9] positive)
      {label_smoothing=0.1}

  count_top_k "first"([40,6], [40] targets 6) {k=1}
  count_top_k "first five"([2,30,70], [2,30] targets 70) {k=5}

  confusion([4,7,3], [4,7] targets 3)
  confusion "many rows"([2,4500,3], [2,4500] targets 3)
  confusion "many classes"([60,70], [60] targets 70)

  count_labels([4,7,3], f32[4,7,3] numbers)
  count_labels "many rows"([1500,3], f32[1500,3] numbers)
  count_labels "many labels"([37,300], f32[37,300] numbers)

  squared_error([13], f32[] positive, f32[13] numbers)
  squared_error "many"([700,3], f32[] positive, f32[700,3] numbers)
  squared_error_backward([13], f32[] positive, f32[13] numbers, compute[] positive)
  squared_error_backward "packs"([2048], f32[] positive, f32[2048] numbers, compute[] positive)
)");

}  // namespace
}  // namespace plimsoll::ops
