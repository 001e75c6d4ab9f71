// Examples of the ops between which attention with stored scores is divided.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const ExampleTable kExamples(R"(
  // Heads of 5 values, of which a GPU moves one at a time; of 8 and 16, of which it moves packs.
  split_heads([2,7,45]) {heads=3, kv_heads=3}
  split_heads "2 of 4 kv heads"([2,6,64]) {heads=4, kv_heads=2}
  split_heads_backward([2,3,7,5], [2,3,7,5], [2,3,7,5]) {heads=3, kv_heads=3}
  split_heads_backward "1 of 4 kv heads"([3,1,24,16], [3,1,6,16], [3,1,6,16]) {heads=4, kv_heads=1}
  merge_heads([2,3,7,5]) {heads=3, kv_heads=3}
  merge_heads "2 of 6 kv heads"([2,2,21,8]) {heads=6, kv_heads=2}
  merge_heads_backward([2,7,15]) {heads=3, kv_heads=3}
  merge_heads_backward "2 of 6 kv heads"([2,7,48]) {heads=6, kv_heads=2}

  // Rows that are no multiple of a vector; rows of whole packs, which a GPU keeps in registers; and
  // rows that it reads more than once.
  masked_softmax "causal, 2 query heads a kv head"([2,2,22,11]) {causal=true, scale=0.25}
  masked_softmax "full"([1,3,64,64]) {causal=false, scale=1.0}
  masked_softmax "full, padded"([4,2,40,40], [4] tokens 41) {causal=false, scale=0.5}
  masked_softmax "causal, padded"([3,1,18,9], [3] tokens 10) {causal=true, scale=0.125}
  // Without f64: finite differences of such large tensors would take long.
  masked_softmax "causal, rows for a block of threads"([1,1,1032,1032]) {causal=true, scale=2.0}
      dtypes=f32,bf16,f16
  masked_softmax "long rows of no whole packs"([1,1,1027,1027]) {causal=false, scale=0.5}
      dtypes=f32,bf16,f16
  masked_softmax_backward "causal"([2,2,22,11] positive, [2,2,22,11]) {causal=true, scale=0.25}
  masked_softmax_backward "full"([2,1,64,64] positive, [2,1,64,64]) {causal=false, scale=0.5}
  masked_softmax_backward "causal, rows for a block of threads"([1,1,1032,1032] small,
      [1,1,1032,1032]) {causal=true, scale=0.5} dtypes=f32,bf16,f16
  masked_softmax_backward "long rows of no whole packs"([1,1,1027,1027] small, [1,1,1027,1027])
      {causal=false, scale=0.5} dtypes=f32,bf16,f16
)");

}  // namespace
}  // namespace plimsoll::ops
