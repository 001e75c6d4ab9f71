// Examples of embeddings, normalisations and optimizer updates.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const ExampleTable kExamples(R"(
  // Large examples go without finite differences (f64).
  embedding "with positions"([2,5] tokens 7, [7,9], [6,9])
  embedding "tokens only"([3,4] tokens 5, [5,8], _)
  embedding "one rank of an axis"([2,5] tokens 7, [7,9], [6,9]) {axis="tensor"}
  embedding_dw "accumulating, several slabs of columns"([4,9] tokens 7, [4,9,150], compute[11,150])
      {rows=11}
  embedding_dw "written"([4,9] tokens 7, [4,9,70], _) {rows=300}
  embedding_dw "one rank of an axis"([4,9] tokens 7, [4,9,16], compute[7,16])
      {axis="tensor", rows=7}
  embedding_dw "added to in bf16"([8,9] tokens 7, [8,9,48], [11,48], [2] counter)
      {key=5, low_gradient=true, rows=11} dtypes=bf16
  embedding_dw "added to in bf16, rows of 13"([4,9] tokens 7, [4,9,13], [11,13], [2] counter)
      {key=5, low_gradient=true, rows=11} dtypes=bf16
  embedding_dw "written in bf16"([4,9] tokens 7, [4,9,16], _, [2] counter)
      {key=5, low_gradient=true, rows=11} dtypes=bf16
  position_dw "accumulating"([3,5,19], compute[8,19]) {rows=8}
  position_dw "written"([3,40,1003], _) {rows=41}

  embedding "documents apart"([2,9] tokens 7, [7,9], [6,9], _, [2,9] places 4)
  embedding "positions from 3"([2,5] tokens 7, [7,9], [8,9], [1] counter)
  position_dw "accumulating from 3"([3,5,19], compute[9,19], [1] counter) {rows=9}

  layer_norm "with bias"([2,3,13], [13], [13]) {eps=1e-05}
  layer_norm "without bias"([5,40], [40], _) {eps=1e-05}
  layer_norm_backward "accumulating"([2,101,37], [37], compute[202] small, compute[202] positive,
      [2,101,37], [2,101,37], compute[37], compute[37])
  layer_norm_backward "written, many rows"([1100,70], [70], compute[1100] small,
      compute[1100] positive, [1100,70], _, _, _)

  rms_norm([2,3,45], [45]) {eps=1e-05}
  rms_norm_backward "accumulating"([101,37], [37], compute[101] positive, [101,37], [101,37],
      compute[37])
  rms_norm_backward "written, many rows"([1100,70], [70], compute[1100] positive, [1100,70], _, _)

  // 2 query heads and 1 key head of 5; 3 and 2 of 24, more tokens than one chunk of partial sums.
  qk_norm([2,3,20], [5], [5]) {eps=1e-05, heads=2, kv_heads=1}
  qk_norm "heads of packs"([3,7,168], [24], [24]) {eps=1e-05, heads=3, kv_heads=2}
  qk_norm_backward "accumulating"([2,9,20], [5], [5], compute[2,9,3] positive, [2,9,20], compute[5],
      compute[5]) {heads=2, kv_heads=1}
  qk_norm_backward "written, heads of packs"([2,33,168], [24], [24], compute[2,33,5] positive,
      [2,33,168], _, _) {heads=3, kv_heads=2}
  qk_norm_backward "wide heads"([1,5,1032], [258], [258], compute[1,5,3] positive, [1,5,1032], _,
      compute[258]) {heads=2, kv_heads=1}

  // Rows of whole 16-byte packs: in the registers of a warp, of a block; several rows per block.
  layer_norm "rows of packs"([3,48], [48], [48]) {eps=1e-05}
  layer_norm "wide rows"([2,2304], [2304], [2304]) {eps=1e-05} dtypes=f32,bf16,f16
  layer_norm_backward "accumulating, rows of packs"([67,320], [320], compute[67] small,
      compute[67] positive, [67,320], [67,320], compute[320], compute[320]) dtypes=f32,bf16,f16
  rms_norm "rows of packs"([3,48], [48]) {eps=1e-05}
  rms_norm_backward "accumulating, rows of packs"([67,320], [320], compute[67] positive, [67,320],
      [67,320], compute[320]) dtypes=f32,bf16,f16

  // The rounding error of a 16-bit sum reappears in y, multiplied by rstd and weight.
  add_layer_norm "with bias"([2,3,13], [2,3,13], [13], [13]) {eps=1e-05} low_precision_tolerance=2
  add_layer_norm "without bias, rows of packs"([5,48], [5,48], [48], _) {eps=1e-05}
      low_precision_tolerance=2
  add_rms_norm([2,3,45], [2,3,45], [45]) {eps=1e-05} low_precision_tolerance=2
  add_rms_norm "rows of packs"([5,48], [5,48], [48]) {eps=1e-05} low_precision_tolerance=2
  // With dropout: rows of no whole packs; several rows of packs a block; rows of one block each.

  add_layer_norm "dropout"([2,3,13], [2,3,13], [13], [13], [2] counter) {eps=1e-05, key=11, p=0.3}
      low_precision_tolerance=4
  add_layer_norm "dropout, rows of packs"([5,72], [5,72], [72], _, [2] counter)
      {eps=1e-05, key=11, p=0.3} low_precision_tolerance=4
  add_layer_norm "dropout, wide rows"([2,2312], [2,2312], [2312], [2312], [2] counter)
      {eps=1e-05, key=11, p=0.3} low_precision_tolerance=4 dtypes=f32,bf16,f16
  add_rms_norm "dropout"([2,3,45], [2,3,45], [45], [2] counter) {eps=1e-05, key=11, p=0.3}
      low_precision_tolerance=4
  add_rms_norm "dropout, rows of packs"([5,72], [5,72], [72], [2] counter)
      {eps=1e-05, key=11, p=0.3} low_precision_tolerance=4
  layer_norm_backward "accumulating, dropout"([2,21,37], [37], compute[42] small,
      compute[42] positive, [2,21,37], [2,21,37], compute[37], compute[37], [2] counter)
      {key=11, p=0.3} low_precision_tolerance=2
  layer_norm_backward "dropout, rows of packs"([67,328], [328], compute[67] small,
      compute[67] positive, [67,328], _, _, _, [2] counter) {key=11, p=0.3}
      low_precision_tolerance=2 dtypes=f32,bf16,f16
  rms_norm_backward "accumulating, dropout"([67,328], [328], compute[67] positive, [67,328],
      [67,328], compute[328], [2] counter) {key=11, p=0.3} low_precision_tolerance=2

  layer_norm_with_backward "accumulating"([2,21,37], [37], [37], compute[42] small,
      compute[42] positive, [2,21,37], [2,21,37], compute[37], compute[37])
  rms_norm_with_backward "accumulating"([42,37], [37], compute[42] positive, [42,37], [42,37],
      compute[37])

  layer_norm_with_backward "accumulating, dropout"([42,72], [72], [72], compute[42] small,
      compute[42] positive, [42,72], [42,72], compute[72], compute[72], [2] counter) {key=11, p=0.3}
      low_precision_tolerance=2
  rms_norm_with_backward "accumulating, dropout"([42,37], [37], compute[42] positive, [42,37],
      [42,37], compute[37], [2] counter) {key=11, p=0.3} low_precision_tolerance=2

  // With the largest magnitudes of their results: rows of no whole packs, of a warp, of a block, and
  // rows that do not fill the last block. With dropout the gradient has all of its results.
  layer_norm "largest"([2,3,13], [13], [13]) {eps=1e-05, largest=true} dtypes=f32,bf16,f16
  layer_norm "largest, rows of packs"([67,72], [72], _) {eps=1e-05, largest=true}
      dtypes=f32,bf16,f16
  layer_norm "largest, wide rows"([3,2312], [2312], [2312]) {eps=1e-05, largest=true}
      dtypes=f32,bf16,f16
  rms_norm "largest"([2,3,45], [45]) {eps=1e-05, largest=true} dtypes=f32,bf16,f16
  rms_norm "largest, rows of packs"([67,72], [72]) {eps=1e-05, largest=true} dtypes=f32,bf16,f16
  add_layer_norm "largest"([2,3,13], [2,3,13], [13], [13]) {eps=1e-05, largest=true}
      low_precision_tolerance=2 dtypes=f32,bf16,f16
  add_layer_norm "largest, dropout, rows of packs"([67,72], [67,72], [72], _, [2] counter)
      {eps=1e-05, key=11, largest=true, p=0.3} low_precision_tolerance=4 dtypes=f32,bf16,f16
  add_rms_norm "largest, rows of packs"([67,72], [67,72], [72]) {eps=1e-05, largest=true}
      low_precision_tolerance=2 dtypes=f32,bf16,f16
  add_rms_norm "largest, dropout"([2,3,45], [2,3,45], [45], [2] counter)
      {eps=1e-05, key=11, largest=true, p=0.3} low_precision_tolerance=4 dtypes=f32,bf16,f16
  layer_norm_backward "largest"([2,21,37], [37], compute[42] small, compute[42] positive,
      [2,21,37], [2,21,37], compute[37], compute[37], [2] counter) {key=11, largest=true, p=0.3}
      low_precision_tolerance=2 dtypes=f32,bf16,f16
  layer_norm_backward "largest, rows of packs"([67,328], [328], compute[67] small,
      compute[67] positive, [67,328], _, _, _, [2] counter) {key=11, largest=true, p=0.3}
      low_precision_tolerance=2 dtypes=f32,bf16,f16
  rms_norm_backward "largest"([42,37], [37], compute[42] positive, [42,37], _, _, [2] counter)
      {key=11, largest=true, p=0.3} low_precision_tolerance=2 dtypes=f32,bf16,f16
  rms_norm_backward "largest, rows of packs"([67,328], [328], compute[67] positive, [67,328],
      [67,328], compute[328], [2] counter) {key=11, largest=true, p=0.3} low_precision_tolerance=2
      dtypes=f32,bf16,f16
  layer_norm_with_backward "largest"([42,37], [37], [37], compute[42] small, compute[42] positive,
      [42,37], _, _, _, [2] counter) {key=11, largest=true, p=0.3} low_precision_tolerance=2
      dtypes=f32,bf16,f16
  layer_norm_with_backward "largest, rows of packs"([67,72], [72], [72], compute[67] small,
      compute[67] positive, [67,72], [67,72], compute[72], compute[72], [2] counter)
      {key=11, largest=true, p=0.3} low_precision_tolerance=2 dtypes=f32,bf16,f16
  rms_norm_with_backward "largest"([42,37], [37], compute[42] positive, [42,37], [42,37],
      compute[37], [2] counter) {key=11, largest=true, p=0.3} low_precision_tolerance=2
      dtypes=f32,bf16,f16
  rms_norm_with_backward "largest, rows of packs"([67,72], [72], compute[67] positive, [67,72], _,
      _, [2] counter) {key=11, largest=true, p=0.3} low_precision_tolerance=2 dtypes=f32,bf16,f16

  // Rows of no whole packs, of a warp, of a block; rows that need padding, columns of several tiles.
  // cuda_tolerance=2: a norm may lie on either side of a rounding boundary on a GPU, and so may its
  // code.
  quantize_norm "rms"([3,7,45], _, [45], _, f32[3] positive)
      {dtype="e4m3", eps=1e-05, index=2, of="rms_norm"} cuda_tolerance=2 dtypes=bf16,f16
  quantize_norm "rms, rows of packs"([67,72], _, [72], _, f32[1] positive)
      {dtype="e4m3", eps=1e-05, index=0, of="rms_norm"} cuda_tolerance=2 dtypes=bf16,f16
  quantize_norm "layer norm"([2,3,13], _, [13], [13], f32[3] positive)
      {dtype="e4m3", eps=1e-05, index=1, of="layer_norm"} cuda_tolerance=2 dtypes=bf16,f16
  quantize_norm "layer norm, rows of packs"([33,520], _, [520], _, f32[1] positive)
      {dtype="e4m3", eps=1e-05, index=0, of="layer_norm"} cuda_tolerance=2 dtypes=bf16,f16
  quantize_norm "sum and rms"([67,328], [67,328], [328], _, f32[2] positive)
      {dtype="e4m3", eps=1e-05, index=1, of="add_rms_norm"} cuda_tolerance=2 dtypes=bf16,f16
  quantize_norm "sum and rms, odd"([2,9,45], [2,9,45], [45], _, f32[2] positive)
      {dtype="e4m3", eps=1e-05, index=1, of="add_rms_norm"} cuda_tolerance=2 dtypes=bf16,f16
  quantize_norm "sum and layer norm"([35,48], [35,48], [48], [48], f32[2] positive)
      {dtype="e4m3", eps=1e-05, index=0, of="add_layer_norm"} cuda_tolerance=2 dtypes=bf16,f16
  quantize_norm "sum and layer norm, wide rows"([3,2312], [3,2312], [2312], _, f32[2] positive)
      {dtype="e4m3", eps=1e-05, index=0, of="add_layer_norm"} cuda_tolerance=2 dtypes=bf16,f16

  // With 1 + weight in place of the weight.
  rms_norm "unit offset"([2,3,45], [45]) {eps=1e-05, unit_offset=true}
  rms_norm "unit offset, largest, rows of packs"([67,72], [72])
      {eps=1e-05, largest=true, unit_offset=true} dtypes=f32,bf16,f16
  rms_norm_backward "unit offset, accumulating"([101,37], [37], compute[101] positive, [101,37],
      [101,37], compute[37]) {unit_offset=true}
  rms_norm_backward "unit offset, dropout, rows of packs"([67,328], [328], compute[67] positive,
      [67,328], [67,328], compute[328], [2] counter) {key=11, p=0.3, unit_offset=true}
      low_precision_tolerance=2
  add_rms_norm "unit offset"([2,3,45], [2,3,45], [45]) {eps=1e-05, unit_offset=true}
      low_precision_tolerance=2
  add_rms_norm "unit offset, dropout, rows of packs"([5,72], [5,72], [72], [2] counter)
      {eps=1e-05, key=11, p=0.3, unit_offset=true} low_precision_tolerance=4
  rms_norm_with_backward "unit offset, accumulating"([42,37], [37], compute[42] positive, [42,37],
      [42,37], compute[37]) {unit_offset=true}
  rms_norm_with_backward "unit offset, dropout, rows of packs"([67,72], [72], compute[67] positive,
      [67,72], _, _, [2] counter) {key=11, p=0.3, unit_offset=true} low_precision_tolerance=2
      dtypes=f32,bf16,f16
  qk_norm "unit offset"([2,3,20], [5], [5]) {eps=1e-05, heads=2, kv_heads=1, unit_offset=true}
  qk_norm "unit offset, heads of packs"([3,7,168], [24], [24])
      {eps=1e-05, heads=3, kv_heads=2, unit_offset=true}
  qk_norm_backward "unit offset, accumulating"([2,9,20], [5], [5], compute[2,9,3] positive,
      [2,9,20], compute[5], compute[5]) {heads=2, kv_heads=1, unit_offset=true}
  qk_norm_backward "unit offset, heads of packs"([2,33,168], [24], [24], compute[2,33,5] positive,
      [2,33,168], _, _) {heads=3, kv_heads=2, unit_offset=true}
  quantize_norm "rms, unit offset"([67,72], _, [72], _, f32[1] positive)
      {dtype="e4m3", eps=1e-05, index=0, of="rms_norm", unit_offset=true} cuda_tolerance=2
      dtypes=bf16,f16
  quantize_norm "sum and rms, unit offset, odd"([2,9,45], [2,9,45], [45], _, f32[2] positive)
      {dtype="e4m3", eps=1e-05, index=1, of="add_rms_norm", unit_offset=true} cuda_tolerance=2
      dtypes=bf16,f16

  loss_scale_step "grows"(f32[] positive, f32[] positive, [] counter, [2] counter)
      {backoff_factor=0.5, dynamic=true, growth_factor=2.0, growth_interval=4, min_scale=1.0}
  loss_scale_step "loss with a limit"(f32[] positive, f32[] positive, [] counter, [2] counter,
      f32[] positive, f32[] small)
      {backoff_factor=0.5, dynamic=true, growth_factor=2.0, growth_interval=4, min_scale=1.0}

  // A loss beyond its limit, and one within it.
  update_gate "skips"(f32[] positive, f32[] positive, f32[] small, [2] counter)
  update_gate "applies"(f32[] positive, f32[] small, f32[] positive, [2] counter)
)");

}  // namespace
}  // namespace plimsoll::ops
