// Optimizer updates, for each way to store weights and moments.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const ExampleTable kExamples(R"(
  // [20,1001]: more than one chunk of a thread's work, 79 scales with a partial last block.
  increment([] counter)
  increment "applied"([] counter, [] counter)

  moving_average([20,1001], [20,1001]) {momentum=0.1}
  moving_average "of three groups"([5,9], [3,5,9]) {momentum=0.3}
  add_to_state([20,1001], [20,1001])
  max_magnitude(f32[20,1001], f32[20,1001]) dtypes=f32
  max_magnitude "of the first"(f32[11]) dtypes=f32
  commit_state "of three ranks"(f32[20,1001], f32[20,1001]) {parts=3} dtypes=f32
  commit_state "gated"(f32[11], f32[11], [] counter) {parts=1} dtypes=f32
  commit_largest(f32[301] positive, f32[301] positive, f32[5,301] positive, [] counter)
      {margin=1.5} dtypes=f32
  commit_largest "gated"(f32[7] positive, f32[7] positive, f32[1,7] positive, [] counter,
      [] counter) {margin=1.0} dtypes=f32

  weight_average([20,1001], [20,1001], [] counter) {decay=0.9, warmup=false} dtypes=f32,f64
  weight_average "warm-up"([11], [11], [] counter, _, [] counter) {decay=0.999, warmup=true}
      dtypes=f32,f64
  weight_average "bf16 with remainder"(f32[20,1001], [20,1001], [] counter, i16[20,1001] bits,
      [] counter) {decay=0.9, warmup=false} dtypes=bf16
  weight_average "float32 master"(f32[20,1001], [20,1001], [] counter, f32[20,1001])
      {decay=0.9, warmup=false} dtypes=bf16,f16
  weight_average "bf16 alone"(f32[20,1001], [20,1001], [] counter) {decay=0.9, warmup=false}
      dtypes=bf16
  exchange_average([20,1001], [20,1001]) dtypes=f32,f64
  exchange_average "bf16 with remainder"([20,1001], f32[20,1001], i16[20,1001] bits) dtypes=bf16
  exchange_average "float32 master"([20,1001], f32[20,1001], f32[20,1001]) dtypes=bf16,f16
  exchange_average "bf16 alone"([20,1001], f32[20,1001]) dtypes=bf16

  adamw "clipped"([20,1001], [20,1001], [20,1001], [20,1001] positive, f32[] positive, [] counter,
      f32[] positive) {beta1=0.9, beta2=0.95, eps=1e-08, weight_decay=0.1} dtypes=f32,f64
  adamw "a factor of the learning rate"([11], [11], [11], [11] positive, f32[] positive, [] counter)
      {beta1=0.9, beta2=0.95, eps=1e-08, lr_factor=0.3, weight_decay=0.1} dtypes=f32,f64
  sgd "bf16 gradient"([20,1001], bf16[20,1001], [20,1001], f32[] positive)
      {momentum=0.9, nesterov=true, weight_decay=0.1} dtypes=f32
  sgd "a factor of the learning rate"([11], [11], [11], f32[] positive)
      {lr_factor=0.3, momentum=0.9, nesterov=true, weight_decay=0.1} dtypes=f32,f64
  adamw "not clipped"([11], [11], [11], [11] positive, f32[] positive, [] counter, _)
      {beta1=0.9, beta2=0.95, eps=1e-08, weight_decay=0.0} dtypes=f32,f64
  adamw "bf16 with remainder"([20,1001], f32[20,1001], f32[20,1001], f32[20,1001] positive,
      f32[] positive, [] counter, f32[] positive, [] counter, i16[20,1001] bits)
      {beta1=0.9, beta2=0.95, eps=1e-08, weight_decay=0.1} dtypes=bf16
  adamw "bf16 with remainder, bf16 gradient"([20,1001], bf16[20,1001], f32[20,1001],
      f32[20,1001] positive, f32[] positive, [] counter, f32[] positive, [] counter,
      i16[20,1001] bits) {beta1=0.9, beta2=0.95, eps=1e-08, weight_decay=0.1} dtypes=bf16
  adamw "float32 master"([20,1001], f32[20,1001], f32[20,1001], f32[20,1001] positive,
      f32[] positive, [] counter, f32[] positive, [] counter, f32[20,1001])
      {beta1=0.9, beta2=0.95, eps=1e-08, weight_decay=0.1} dtypes=bf16,f16
  adamw "bf16 weight and moments"([20,1001], f32[20,1001], bf16[20,1001], bf16[20,1001] positive,
      f32[] positive, [] counter, _, _, _, _, _, [2] counter)
      {beta1=0.9, beta2=0.95, eps=1e-08, key=5, weight_decay=0.1} dtypes=bf16
  adamw "float32 weight, bf16 moments"([11], [11], bf16[11], bf16[11] positive, f32[] positive,
      [] counter, f32[] positive, [] counter, _, _, _, [2] counter)
      {beta1=0.9, beta2=0.95, eps=1e-08, key=5, weight_decay=0.1} dtypes=f32
  adamw "float32 weight, 8-bit moments"([20,1001], [20,1001], u8[20,1001] bits, u8[20,1001] bits,
      f32[] positive, [] counter, _, _, _, f32[79] positive, f32[79] positive)
      {beta1=0.9, beta2=0.95, eps=1e-08, weight_decay=0.1} dtypes=f32
  adamw "bf16 with remainder, 8-bit moments"([11], f32[11], u8[11] bits, u8[11] bits,
      f32[] positive, [] counter, f32[] positive, [] counter, i16[11] bits, f32[1] positive,
      f32[1] positive) {beta1=0.9, beta2=0.95, eps=1e-08, weight_decay=0.1} dtypes=bf16

  sgd "nesterov momentum, clipped"([20,1001], [20,1001], [20,1001], f32[] positive, f32[] positive)
      {momentum=0.9, nesterov=true, weight_decay=0.1} dtypes=f32,f64
  sgd "no momentum"([13], [13], _, f32[] positive, _)
      {momentum=0.0, nesterov=false, weight_decay=0.0} dtypes=f32,f64
  sgd "bf16 with remainder, bf16 momentum"([20,1001], f32[20,1001], bf16[20,1001], f32[] positive,
      f32[] positive, [] counter, i16[20,1001] bits, _, [2] counter)
      {key=5, momentum=0.9, nesterov=false, weight_decay=0.1} dtypes=bf16
  sgd "float32 master, 8-bit momentum"([20,1001], f32[20,1001], u8[20,1001] bits, f32[] positive, _,
      _, f32[20,1001], f32[79] positive) {momentum=0.9, nesterov=true, weight_decay=0.1}
      dtypes=bf16,f16
  sgd "bf16 weight, no momentum"([11], f32[11], _, f32[] positive, _, _, _, _, [2] counter)
      {key=5, momentum=0.0, nesterov=false, weight_decay=0.1} dtypes=bf16

  muon_momentum "nesterov, clipped"([20,1001], [20,1001], f32[] positive)
      {momentum=0.95, nesterov=true} dtypes=f32,f64
  muon_momentum "gated, not nesterov"([11], [11], _, [] counter) {momentum=0.9, nesterov=false}
      dtypes=f32,f64
  muon_momentum "bf16 gradient"(bf16[20,1001], [20,1001]) {momentum=0.95, nesterov=true} dtypes=f32
  muon_momentum "bf16 buffer"(f32[20,1001], [20,1001], f32[] positive, [] counter, _, [2] counter)
      {key=5, momentum=0.95, nesterov=true} dtypes=bf16
  muon_momentum "8-bit buffer"([20,1001], u8[20,1001] bits, _, _, f32[79] positive)
      {momentum=0.95, nesterov=true} dtypes=f32
  divide_by_norm([20,1001], f32[] positive) {dtype="f32", eps=1e-07} dtypes=f32
  divide_by_norm "to bf16"([20,1001], f32[] positive) {dtype="bf16", eps=1e-07} dtypes=f32
  divide_by_norm "of doubles"([7], f32[] positive) {dtype="f64", eps=1e-07} dtypes=f64
  weighted_sum([20,1001], [20,1001]) {alpha=-4.775, beta=2.0315}
  stack_rows([3,7], [5,7], [1,7])
)");

}  // namespace
}  // namespace plimsoll::ops
