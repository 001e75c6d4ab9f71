// Examples of arithmetic, activations, dropout, reductions and shape ops. Sizes are not multiples
// of a vector's length, and some exceed one chunk of a threaded loop.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const ExampleTable kExamples(R"(
  // [33,1001] is more than two chunks of 16384 elements.
  add([3,7,5], [3,7,5])
  add "integers"([33,1001] tokens 1048576, [33,1001] tokens 1048576) dtypes=f32
  mul([3,7,5], [3,7,5])
  scale([3,7,5]) {factor=-2.5}
  // Each type rounds the factor, too, by up to half a unit.
  scale "rounded"([3,7,5]) {factor=45.254833995939045, rounded=true} low_precision_tolerance=1
  scale_by "f32 scalar"([3,7,5], f32[] positive)
  scale_by "scalar of the same dtype"([3,7,5], [])
  cast "to f64"([3,7,5]) {dtype="f64"}
  // Without communicators a rank is alone.
  all_reduce_start([33,1001]) {axis="data"}
  all_reduce_done([3,7,5])
  reduce_scatter_start([4,6]) {axis="data", d0=24, rank=1}
  reduce_scatter_done([3,7,5], [3,7,5])
  all_gather_start([24]) {axis="tensor", d0=4, d1=6, rank=2}
  all_gather_done([3,7,5], [3,7,5])
  sum_gradient([3,7,5]) {axis="tensor"}
  place_columns "of the first of three ranks"([4,6]) {axis="tensor", ranks=3}
  own_part "of one rank"([4,6]) {d0=24, rank=1}
  slice "of a part"([4,6]) {d0=3, d1=4, first=5, rank=2}
  pack "one tensor"([7])
  pack "several tensors"([17,5003], [3], [0,4], [64], [], [70001])
  stack([], [], []) dtypes=f32,f64
  first_part "of three"([3,6]) {d0=6, rank=1}
  copy_start([33,1001])
  copy_done([3,7,5], [3,7,5])
  // The tolerance is the rounding error of float divided by the step of the finite difference.
  cast "to f32"([3,7,5]) {dtype="f32"} tolerance=0.1
  cast "from i32"([9] tokens 100) {dtype="f32"}
  // Rounding to 16 bits is a step function: no finite differences.
  cast "to bf16"([33,1001]) {dtype="bf16"} dtypes=f32,bf16,f16
  cast "to f16"([33,1001]) {dtype="f16"} dtypes=f32,bf16,f16
  cast "from i32 to f16"([9] tokens 100) {dtype="f16"}
  fill "bf16"() {d0=5, dtype="bf16", rank=1, value=0.1}
  fill "scalar"() {dtype="f32", value=1.0}
  fill "tensor"() {d0=5, d1=3, dtype="f64", rank=2, value=-0.5}
  fill "integer"() {d0=5, dtype="i32", rank=1, value=7}

  gelu "tanh"([3,7,5]) {approximate="tanh"}
  gelu "exact"([3,7,5]) {approximate="none"}
  gelu_backward "tanh"([33,1001], [33,1001]) {approximate="tanh"}
  gelu_backward "exact"([33,1001], [33,1001]) {approximate="none"}
  // The bias's gradient sums gradients that are rounded already, whose errors partly cancel: the
  // measured error was a third of one rounding, relative to the largest sum.
  gelu_with_backward "accumulating the bias"([7,31,264], [7,31,264], compute[264])
      {approximate="tanh"} low_precision_tolerance=0.35
  gelu_with_backward "exact, odd width"([301,37], [301,37]) {approximate="none"}
      low_precision_tolerance=0.35
  silu([3,7,5])
  silu_backward([33,1001], [33,1001])
  // With the largest magnitudes of their results.
  gelu "largest"([3,7,5]) {approximate="tanh", largest=true} dtypes=f32,bf16,f16
  gelu_backward "largest"([40,421], [40,421]) {approximate="none", largest=true} dtypes=f32,bf16,f16
  gelu_with_backward "largest"([5,9,176], [5,9,176], _) {approximate="tanh", largest=true}
      dtypes=f32,bf16,f16
  swiglu "largest"([3,4,22]) {largest=true} dtypes=f32,bf16,f16
  swiglu_backward "largest"([40,848], [40,424]) {largest=true} dtypes=f32,bf16,f16
  swiglu_with_backward "largest"([40,842], [40,421]) {largest=true} dtypes=f32,bf16,f16
  swiglu([3,4,22])
  swiglu_backward([40,842], [40,421])

  swiglu_with_backward([40,842], [40,421])
  swiglu_with_backward "whole packs"([5,9,176], [5,9,88])

  geglu([3,4,22])
  geglu_backward([40,842], [40,421])
  geglu_with_backward([40,842], [40,421])
  geglu_with_backward "whole packs"([5,9,176], [5,9,88])
  geglu "largest"([3,4,22]) {largest=true} dtypes=f32,bf16,f16
  geglu_backward "largest"([40,848], [40,424]) {largest=true} dtypes=f32,bf16,f16
  geglu_with_backward "largest"([40,842], [40,421]) {largest=true} dtypes=f32,bf16,f16
  softcap([3,7,5]) {cap=1.5}
  softcap_backward([33,1001], [33,1001]) {cap=0.8}

  relu([3,7,5])
  relu_backward([33,1001], [33,1001])
  leaky_relu([3,7,5]) {slope=0.01}
  leaky_relu_backward([33,1001], [33,1001]) {slope=0.3}
  sigmoid([3,7,5])
  sigmoid_backward([33,1001], [33,1001])
  tanh([3,7,5])
  tanh_backward([33,1001], [33,1001])

  dropout([3,7,5], [2] counter) {key=17, p=0.3}
  dropout "scores"([2,2,74,37], [2] counter) {key=17, p=0.3, scores=true}
  dropout "keeps all"([3,7,5], [2] counter) {key=17, p=0.0}

  drop_path([40,3], [2] counter) {key=17, p=0.4}
  drop_path "chunks within samples"([5,40000], [2] counter) {key=3, p=0.5} dtypes=f32

  add_rounded "a partial block"(bf16[3,7], [3,7], [2] counter) {key=17} dtypes=f32,bf16
  add_rounded "several chunks"(bf16[70,701], [70,701], [2] counter) {key=17} dtypes=f32,bf16

  sum([3,7,5])
  squared_norm([3,7,5])
  global_norm "one tensor"([7])
  global_norm "several chunks"([17,5003], [3], [0,4], [70001], [])
  square_sum "several chunks"([17,5003])
  square_sum "of nothing"([0,4])
  root_of_sums([] positive, [] positive, [] positive) dtypes=f64
  clip_factor "clips"(f32[] positive) {max_norm=0.25}
  clip_factor "keeps"(f32[] positive) {max_norm=2.0}

  view([4,6]) {d0=2, d1=2, d2=6, rank=3}
  stop_gradient([4,6])
  select_rows([3,4,5], [3] tokens 4)
)");

}  // namespace
}  // namespace plimsoll::ops
