// Examples of matrix products, attention and the fused loss.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const ExampleTable kExamples(R"(
  linear "with bias"([2,3,7], [5,7], [5])
  linear "without bias"([12,20], [9,20], _)
  linear "several tiles"([150,33], [70,33] small, [70])
  linear "a few rows, many columns"([3,530], [300,530] small, [300])
  linear_dx "accumulating"([2,30,40], [40,50], [2,30,50])
  linear_dx "written"([60,40], [40,50], _)
  linear_dw "accumulating"([2,70,50], [2,70,300], compute[300,50], compute[300]) {bias=true}
  linear_dw "added to in bf16"([2,70,48], [2,70,300], [300,48], _, [2] counter)
      {bias=false, key=5, low_gradient=true} dtypes=bf16
  linear_dw "added to in bf16, slice by slice"([9,4096], [9,2313], [2313,4096], f32[2313],
      [2] counter) {bias=true, key=5, low_gradient=true} dtypes=bf16
  // More than a slice, for the kernel of our own on a Hopper GPU.
  linear_dw "added to in bf16, large"([72,4104], [72,2048], [2048,4104], _, [2] counter)
      {bias=false, key=5, low_gradient=true} dtypes=bf16
  linear_dw "written"([67,50], [67,40], _, _) {bias=true}
  // The product is rounded before gelu's gradient, or the GPU uses a fast tanh.
  linear_dx_gelu([2,30,40], [40,56], [2,30,56]) low_precision_tolerance=4
  linear_dx_gelu "odd"([13,9], [9,27], [13,27]) low_precision_tolerance=4

  // Most magnitudes here exceed `largest`, and so saturate; those of "many tiles" do not.
  largest_magnitude([3,7,40]) dtypes=f32,bf16,f16
  largest_magnitude "many blocks"([300,211]) dtypes=f32,bf16,f16
  quantize "all results, odd rows"([3,7,40], f32[] positive, f32[40]) {dtype="e4m3"}
      dtypes=f32,bf16,f16
  quantize "codes, sums unread"([2,33,48], f32[] positive, _) {dtype="e5m2"} dtypes=f32,bf16,f16
  quantize "many tiles"([300,208] small, f32[] positive, _) {dtype="e4m3"} dtypes=bf16,f16
  quantize "odd columns"([131,173], f32[] positive, _) {dtype="e5m2"} dtypes=f32,bf16,f16
  quantize "as expected"([33,48], f32[] positive, _, f32[3] positive) {dtype="e4m3", index=2}
      dtypes=f32,bf16,f16
  dequantize(e4m3[3,7,40], f32[] positive) {dtype="bf16"} dtypes=bf16
  dequantize "many blocks"(e5m2[300,211], f32[] positive) {dtype="f16"} dtypes=f16
  transpose_codes(e4m3[3,7,40]) dtypes=f32
  transpose_codes "many tiles"(e4m3[300,208]) dtypes=f32
  transpose_codes "odd columns"(e5m2[131,173]) dtypes=f32
  count_codes([3,7,40], f32[] positive, _) {dtype="e4m3", weight=0.001} dtypes=f32,bf16,f16
  count_codes "added to"([300,211], f32[] positive, f32[3]) {dtype="e5m2", weight=0.5}
      dtypes=f32,bf16,f16
  // cuda_tolerance=2: an activation may lie on either side of a rounding boundary on a GPU, and so
  // may its code.
  quantize_activation "gelu"([3,7,40], _, _, f32[3] positive)
      {approximate="tanh", dtype="e4m3", index=2, of="gelu"} cuda_tolerance=2 dtypes=f32,bf16,f16
  quantize_activation "exact gelu, odd, with sums"([131,75], _, f32[75], f32[1] positive)
      {approximate="none", dtype="e5m2", index=0, of="gelu"} cuda_tolerance=2 dtypes=f32,bf16,f16
  quantize_activation "gradient of gelu, with sums"([2,33,48], [2,33,48], f32[48], f32[2] positive)
      {approximate="tanh", dtype="e5m2", index=1, of="gelu_backward"} cuda_tolerance=2
      dtypes=f32,bf16,f16
  quantize_activation "gradient of exact gelu"([33,48], [33,48], _, f32[2] positive)
      {approximate="none", dtype="e4m3", index=1, of="gelu_backward"} cuda_tolerance=2
      dtypes=f32,bf16,f16
  quantize_activation "swiglu, many tiles"([300,416], _, _, f32[2] positive)
      {dtype="e4m3", index=1, of="swiglu"} cuda_tolerance=2 dtypes=f32,bf16,f16
  quantize_activation "swiglu, odd"([17,2,26], _, _, f32[2] positive)
      {dtype="e4m3", index=0, of="swiglu"} cuda_tolerance=2 dtypes=f32,bf16,f16
  quantize_activation "gradient of swiglu"([150,272], [150,136], _, f32[2] positive)
      {dtype="e4m3", index=0, of="swiglu_backward"} cuda_tolerance=2 dtypes=f32,bf16,f16
  quantize_activation "gradient of swiglu, odd, with sums"([9,5,26], [9,5,13], f32[26],
      f32[2] positive) {dtype="e5m2", index=0, of="swiglu_backward"} cuda_tolerance=2
      dtypes=f32,bf16,f16
  quantize_activation "gelu of codes"(e4m3[131,75], _, f32[75], f32[1] positive, f32[] positive)
      {a_dtype="bf16", approximate="tanh", dtype="e4m3", index=0, of="gelu"} cuda_tolerance=2
      dtypes=bf16
  quantize_activation "gradient of swiglu of codes"(e4m3[150,272], f16[150,136], _, f32[2] positive,
      f32[] positive) {a_dtype="f16", dtype="e5m2", index=0, of="swiglu_backward"} cuda_tolerance=2
      dtypes=f16
  // cuda_tolerance=0.25: matrix units keep about 14 bits of sums of codes, relative to the largest.
  scaled_linear "with bias"(e4m3[3,7,48], e4m3[32,48] small, f32[] positive, f32[] positive,
      bf16[32], _) {dtype="bf16", fast=true} dtypes=bf16
  scaled_linear "gradient of the input, accumulating"(e5m2[33,64], e4m3[1600,64], f32[] positive,
      f32[] positive, _, bf16[33,1600]) {dtype="bf16"} dtypes=bf16
  scaled_linear "f16"(e5m2[33,64], e4m3[96,64], f32[] positive, f32[] positive, f16[96], f16[33,96])
      {dtype="f16"} dtypes=f16
  scaled_linear "gradient of the weight, accumulating"(e5m2[80,160], e4m3[1600,160],
      f32[] positive, f32[] positive, _, f32[80,1600]) {dtype="f32"} dtypes=bf16 cuda_tolerance=0.25
  scaled_linear "gradient of the weight, in bf16"(e4m3[80,160], e5m2[208,160],
      f32[] positive, f32[] positive, _, _, [2] counter)
      {dtype="bf16", key=5, low_gradient=true} dtypes=bf16
  scaled_linear "gradient of the weight, added to in bf16, slice by slice"(e5m2[2320,32],
      e4m3[4096,32], f32[] positive, f32[] positive, _, bf16[2320,4096], [2] counter)
      {dtype="bf16", key=5, low_gradient=true} dtypes=bf16

  add_low_rank "two ranges of columns"([2,5,30], [2,5,6], [16,3]) {columns="14+9 3+7", scale=0.5}
  add_low_rank "all columns"([70,40], [70,8], [40,8]) {columns="0+40", scale=0.5}
  add_low_rank_du "two ranges of columns"([2,5,30], [16,3]) {columns="14+9 3+7", scale=0.5}
  add_low_rank_du "all columns"([70,40], [40,8]) {columns="0+40", scale=0.5}
  add_low_rank_db "two ranges of columns, accumulating"([2,35,6], [2,35,30], compute[16,3])
      {columns="14+9 3+7", scale=0.5}
  add_low_rank_db "all columns, written"([70,8], [70,40], _) {columns="0+40", scale=0.5}

  matmul "a b"([2,3,4,5], [2,3,5,6]) {trans_a=false, trans_b=false}
  matmul "aT b"([2,5,4], [2,5,6]) {trans_a=true, trans_b=false}
  matmul "a bT"([4,5], [6,5]) {trans_a=false, trans_b=true}
  matmul "aT bT, many small"([9,5,4], [9,6,5]) {trans_a=true, trans_b=true}

  rotary "1 of 2 kv heads"([2,5,24]) {heads=2, inverse=false, kv_heads=1, theta=10000.0}
  rotary "inverse, llama3 scaling"([1,9,48]) {factor=4.0, heads=1, high_freq_factor=4.0,
      inverse=true, kv_heads=1, low_freq_factor=1.0, original_sequence=64, theta=100.0}

  rotary "linear scaling"([2,7,24]) {factor=3.0, heads=2, inverse=false, kv_heads=1, theta=100.0}

  rotary "positions from 3"([2,5,24], [1] counter)
      {heads=2, inverse=false, kv_heads=1, theta=10000.0}
  rotary "documents apart"([3,9,24], _, [3,9] places 4)
      {heads=2, inverse=false, kv_heads=1, theta=100.0}
  rotary "yarn"([2,9,72], [1] counter) {attention_factor=1.125, beta_fast=32.0, beta_slow=1.0,
      factor=4.0, heads=1, inverse=false, kv_heads=1, original_sequence=64, theta=100.0,
      truncate=true}
  rotary "yarn, untruncated, inverse"([1,9,48]) {attention_factor=0.75, beta_fast=4.0,
      beta_slow=2.0, factor=4.0, heads=1, inverse=true, kv_heads=1, original_sequence=64,
      theta=100.0, truncate=false}
  rotary "longrope, 6 of 8 elements"([2,5,32]) {attention_factor=1.19, heads=2, inverse=false,
      kv_heads=1, rotary_width=6, stretch="1 1.25 3.5", theta=100.0}
  rotary "16 of 24 elements, documents apart"([3,9,72], _, [3,9] places 4)
      {heads=1, inverse=true, kv_heads=1, rotary_width=16, theta=100.0}
  // With the largest magnitudes of their results. cuda_tolerance=2, here and for attention: such a
  // magnitude is a float32, but as far off as the element that has it.
  rotary "largest"([2,5,64]) {heads=2, inverse=true, kv_heads=1, largest=true, theta=10000.0}
      cuda_tolerance=2 dtypes=f32,bf16,f16
  rotary "largest, 10 of 16 elements"([2,5,64]) {attention_factor=0.5, heads=2, inverse=false,
      kv_heads=1, largest=true, rotary_width=10, theta=10000.0} dtypes=f32,bf16,f16
  rotary "largest, narrow"([9,3,24]) {heads=1, inverse=false, kv_heads=1, largest=true,
      theta=100.0} cuda_tolerance=2 dtypes=f32,bf16,f16

  attention "causal"([2,7,24], _) {causal=true, dropout=0.0, heads=2, key=11, kv_heads=2}
  attention "causal, 2 of 4 kv heads, several tiles"([1,150,24], _)
      {causal=true, dropout=0.0, heads=4, key=11, kv_heads=2}
  attention "full"([1,70,36], _) {causal=false, dropout=0.0, heads=2, key=11, kv_heads=1}
  attention "dropout"([2,9,24], [2] counter)
      {causal=true, dropout=0.25, heads=2, key=11, kv_heads=2}
  attention "full, padded"([4,70,36], _, [4] tokens 71)
      {causal=false, dropout=0.0, heads=2, key=11, kv_heads=1}
  attention "causal, padded, dropout"([3,9,24], [2] counter, [3] tokens 10)
      {causal=true, dropout=0.25, heads=2, key=11, kv_heads=2}
  attention_backward "1 of 2 kv heads"([2,70,32], [2,70,16], compute[2,2,70] positive, [2,70,16], _)
      {causal=true, dropout=0.0, heads=2, key=11, kv_heads=1}
  attention_backward "padded"([3,140,48], [3,140,16], compute[3,2,140] positive, [3,140,16], _,
      [3] tokens 141) {causal=false, dropout=0.0, heads=2, key=11, kv_heads=2}
  attention_backward "dropout"([1,20,24], [1,20,8], compute[1,1,20] positive, [1,20,8], [2] counter)
      {causal=false, dropout=0.5, heads=1, key=11, kv_heads=1}
  attention "documents apart, several tiles"([1,150,24], _, _, [1,150] places 67)
      {causal=true, dropout=0.0, heads=4, key=11, kv_heads=2}
  attention "documents apart, dropout"([2,9,24], [2] counter, _, [2,9] places 4)
      {causal=true, dropout=0.25, heads=2, key=11, kv_heads=2}
  attention "a window"([2,90,24], _) {causal=true, dropout=0.0, heads=2, key=11, kv_heads=2,
      window=7}
  attention "documents apart, a window"([2,12,24], _, _, [2,12] places 5)
      {causal=true, dropout=0.0, heads=2, key=11, kv_heads=2, window=3}
  attention "padded, a window"([3,20,24], _, [3] tokens 21)
      {causal=true, dropout=0.0, heads=2, key=11, kv_heads=2, window=6}
  attention_backward "documents apart"([2,140,32], [2,140,16], compute[2,2,140] positive,
      [2,140,16], _, _, [2,140] places 33) {causal=true, dropout=0.0, heads=2, key=11, kv_heads=1}
  attention_backward "a window, dropout"([1,80,24], [1,80,8], compute[1,1,80] positive, [1,80,8],
      [2] counter) {causal=true, dropout=0.5, heads=1, key=11, kv_heads=1, window=20}
  // Scores with a scale of their own, and with a soft cap that bends them.
  attention "scaled"([2,7,24], _)
      {causal=true, dropout=0.0, heads=2, key=11, kv_heads=2, scale=0.8}
  attention "capped, several tiles"([1,150,24], _)
      {causal=true, dropout=0.0, heads=4, key=11, kv_heads=2, softcap=0.9}
  attention "capped, full, padded"([4,30,36], _, [4] tokens 31)
      {causal=false, dropout=0.0, heads=2, key=11, kv_heads=1, scale=0.6, softcap=1.5}
  attention "capped, dropout, documents apart, a window"([2,12,24], [2] counter, _, [2,12] places 5)
      {causal=true, dropout=0.25, heads=2, key=11, kv_heads=2, softcap=1.1, window=3}
  attention_backward "capped"([2,70,32], [2,70,16], compute[2,2,70] positive, [2,70,16], _)
      {causal=true, dropout=0.0, heads=2, key=11, kv_heads=1, scale=0.7, softcap=1.1}
  attention_backward "capped, a window, dropout"([1,80,24], [1,80,8], compute[1,1,80] positive,
      [1,80,8], [2] counter)
      {causal=true, dropout=0.5, heads=1, key=11, kv_heads=1, softcap=0.7, window=20}
  attention "capped, heads of 256"([1,140,1024], _)
      {causal=true, dropout=0.0, heads=2, key=11, kv_heads=1, scale=0.0625, softcap=2.0, window=64}
      cuda_tolerance=4 dtypes=f32,bf16,f16
  attention_backward "capped, heads of 256"([1,140,1024], [1,140,512], compute[1,2,140] positive,
      [1,140,512], _)
      {causal=true, dropout=0.0, heads=2, key=11, kv_heads=1, scale=0.0625, softcap=2.0, window=64}
      cuda_tolerance=8 dtypes=f32,bf16,f16
  // Of the kernels for tensor cores on a GPU, which leave tiles out: documents that end within tiles
  // and with them, of a token; windows shorter and longer than a tile. cuda_tolerance: weights and
  // their gradients are rounded to 16 bits.
  attention "documents apart, heads of 64"([1,520,256], _, _, [1,520] places 200)
      {causal=true, dropout=0.0, heads=2, key=11, kv_heads=1} cuda_tolerance=4 dtypes=f32,bf16,f16
  attention "documents apart, heads of 128"([1,520,512], _, _, [1,520] places 128)
      {causal=true, dropout=0.0, heads=2, key=11, kv_heads=1} cuda_tolerance=4 dtypes=f32,bf16,f16
  attention "documents of a token, heads of 64"([1,140,192], _, _, [1,140] places 1)
      {causal=true, dropout=0.0, heads=1, key=11, kv_heads=1} cuda_tolerance=4 dtypes=f32,bf16,f16
  attention "a window of 150, heads of 128, dropout"([1,520,384], [2] counter)
      {causal=true, dropout=0.25, heads=1, key=11, kv_heads=1, window=150} cuda_tolerance=4
      dtypes=f32,bf16,f16
  attention "documents apart, a window of 40, heads of 64, largest"([1,520,192], _, _,
      [1,520] places 260) {causal=true, dropout=0.0, heads=1, key=11, kv_heads=1, largest=true,
      window=40} cuda_tolerance=4 dtypes=f32,bf16,f16
  attention_backward "documents apart, heads of 64"([1,520,256], [1,520,128],
      compute[1,2,520] positive, [1,520,128], _, _, [1,520] places 200)
      {causal=true, dropout=0.0, heads=2, key=11, kv_heads=1} cuda_tolerance=8 dtypes=f32,bf16,f16
  attention_backward "documents apart, heads of 128"([1,520,512], [1,520,256],
      compute[1,2,520] positive, [1,520,256], _, _, [1,520] places 128)
      {causal=true, dropout=0.0, heads=2, key=11, kv_heads=1} cuda_tolerance=8 dtypes=f32,bf16,f16
  attention_backward "a window of 150, heads of 128, dropout"([1,520,384], [1,520,128],
      compute[1,1,520] positive, [1,520,128], [2] counter)
      {causal=true, dropout=0.25, heads=1, key=11, kv_heads=1, window=150} cuda_tolerance=8
      dtypes=f32,bf16,f16
  // With the largest magnitudes of out and dqkv.
  attention "largest"([2,70,64], _)
      {causal=true, dropout=0.0, heads=2, key=11, kv_heads=1, largest=true}
      cuda_tolerance=2 dtypes=f32,bf16,f16
  attention "largest, odd width"([1,66,33], _)
      {causal=false, dropout=0.0, heads=1, key=11, kv_heads=1, largest=true}
      cuda_tolerance=2 dtypes=f32,bf16,f16
  attention "largest, padded, dropout"([3,90,48], [2] counter, [3] tokens 91)
      {causal=true, dropout=0.25, heads=2, key=11, kv_heads=2, largest=true}
      cuda_tolerance=2 dtypes=f32,bf16,f16
  attention_backward "largest"([2,70,64], [2,70,32], compute[2,2,70] positive, [2,70,32], _)
      {causal=true, dropout=0.0, heads=2, key=11, kv_heads=1, largest=true}
      cuda_tolerance=2 dtypes=f32,bf16,f16
  attention_backward "largest, odd width"([1,66,33], [1,66,11], compute[1,1,66] positive, [1,66,11],
      _) {causal=false, dropout=0.0, heads=1, key=11, kv_heads=1, largest=true}
      cuda_tolerance=2 dtypes=f32,bf16,f16
  attention_backward "largest, padded, dropout"([3,90,48], [3,90,16], compute[3,2,90] positive,
      [3,90,16], [2] counter, [3] tokens 91)
      {causal=true, dropout=0.25, heads=2, key=11, kv_heads=2, largest=true}
      cuda_tolerance=2 dtypes=f32,bf16,f16

  // The loss of x, weight, targets and scale. low_precision_tolerance=4: the logits' gradients are
  // rounded before they enter the products. cuda_tolerance=1: a GPU rounds the logits to 16 bits,
  // except where it stores exponentials (ops/cuda/loss_exponentials.h), with an error relative to
  // the largest; 16 in fp16 with exponentials: two factors are rounded to bf16, whose error is
  // eight times as large.
  linear_cross_entropy([2,9,11], [37,11], [2,9] targets 37, f32[] positive) cuda_tolerance=1
  linear_cross_entropy "bias"([2,9,11], [37,11], [2,9] targets 37, f32[] positive, [37])
      cuda_tolerance=1
  linear_cross_entropy_backward "accumulating"([2,9,11] small, [37,11], [2,9] targets 37,
      f32[] positive, compute[18] positive, compute[] positive, compute[37,11])
      low_precision_tolerance=4 cuda_tolerance=1
  linear_cross_entropy_backward "bias, accumulating"([2,9,11] small, [37,11], [2,9] targets 37,
      f32[] positive, compute[18] positive, compute[] positive, compute[37,11], [37], compute[37])
      low_precision_tolerance=4 cuda_tolerance=1
  linear_cross_entropy_train "bias, many rows"([1100,8], [530,8] small, [1100] targets 530,
      f32[] positive, compute[] positive, _, [530], _) low_precision_tolerance=16 cuda_tolerance=1
  linear_cross_entropy_train "accumulating"([2,9,11], [37,11], [2,9] targets 37, f32[] positive,
      compute[] positive, compute[37,11]) low_precision_tolerance=4 cuda_tolerance=1
  linear_cross_entropy_train "added to in bf16, many rows"([1100,24], [530,24] small,
      [1100] targets 530, f32[] positive, f32[] positive, [530,24], _, _, [2] counter)
      {key=5, low_gradient=true} low_precision_tolerance=16 cuda_tolerance=1 dtypes=bf16
  linear_cross_entropy_backward "added to in bf16"([2,9,11], [37,11], [2,9] targets 37,
      f32[] positive, f32[18] positive, f32[] positive, [37,11], _, _, [2] counter)
      {key=5, low_gradient=true} low_precision_tolerance=4 cuda_tolerance=1 dtypes=bf16
  linear_cross_entropy_train "written, many rows"([300,20], [500,20] small, [300] targets 500,
      f32[] positive, compute[] positive, _) low_precision_tolerance=4 cuda_tolerance=1
  linear_cross_entropy "rows of packs"([140,24], [500,24], [140] targets 500, f32[] positive)
      cuda_tolerance=1 dtypes=f32,bf16
  linear_cross_entropy_train "rows of packs"([140,24], [500,24], [140] targets 500, f32[] positive,
      compute[] positive, compute[500,24])
      low_precision_tolerance=4 cuda_tolerance=1 dtypes=f32,bf16
  // Its logits are small, since GPUs other than Hopper round them.
  linear_cross_entropy_train "rows of packs in fp16"([140,24], [500,24] small, [140] targets 500,
      f32[] positive, compute[] positive, compute[500,24])
      low_precision_tolerance=4 cuda_tolerance=16 dtypes=f32,f16

  // With a soft cap that bends the logits.
  linear_cross_entropy "capped"([2,9,11], [37,11], [2,9] targets 37, f32[] positive) {softcap=2.0}
      cuda_tolerance=1
  linear_cross_entropy_backward "capped, bias, accumulating"([2,9,11] small, [37,11],
      [2,9] targets 37, f32[] positive, compute[18] positive, compute[] positive, compute[37,11],
      [37], compute[37]) {softcap=1.5} low_precision_tolerance=4 cuda_tolerance=1
  linear_cross_entropy_train "capped, split"([2,9,11], [37,11], [2,9] targets 37, f32[] positive,
      compute[] positive, compute[37,11]) {axis="tensor", softcap=2.0} low_precision_tolerance=4
      cuda_tolerance=1
  linear_cross_entropy_train "capped, rows of packs"([140,24], [500,24], [140] targets 500,
      f32[] positive, compute[] positive, compute[500,24]) {softcap=3.0} low_precision_tolerance=4
      cuda_tolerance=1 dtypes=f32,bf16

  // A vocabulary that is split among the ranks of an axis with only one rank.
  linear_cross_entropy "split"([2,9,11], [37,11], [2,9] targets 37, f32[] positive) {axis="tensor"}
      cuda_tolerance=1
  linear_cross_entropy_backward "split"([2,9,11] small, [37,11], [2,9] targets 37, f32[] positive,
      compute[18] positive, compute[] positive, compute[37,11]) {axis="tensor"}
      low_precision_tolerance=4 cuda_tolerance=1
  linear_cross_entropy_train "split"([2,9,11], [37,11], [2,9] targets 37, f32[] positive,
      compute[] positive, compute[37,11]) {axis="tensor"} low_precision_tolerance=4 cuda_tolerance=1
  linear_cross_entropy_train "split, rows of packs"([140,24], [500,24], [140] targets 500,
      f32[] positive, compute[] positive, compute[500,24]) {axis="tensor"}
      low_precision_tolerance=4 cuda_tolerance=1 dtypes=f32,bf16

  // Log-probabilities of targets, with tolerances as above, and the losses of pairs of documents made
  // of them. Where a GPU stores exponentials, the backward op computes lse again: its examples, whose
  // lse is any numbers, have rows of x without whole packs.
  linear_log_probs([2,9,11], [37,11], [2,9] targets 37) cuda_tolerance=1
  linear_log_probs "bias"([2,9,11], [37,11], [2,9] targets 37, [37]) cuda_tolerance=1
  linear_log_probs "bias, many rows"([1100,8], [530,8] small, [1100] targets 530, [530])
      cuda_tolerance=1 dtypes=f32,bf16,f16
  linear_log_probs "rows of packs"([140,24], [500,24], [140] targets 500)
      cuda_tolerance=1 dtypes=f32,bf16
  linear_log_probs "rows of packs in fp16"([140,24], [500,24] small, [140] targets 500)
      cuda_tolerance=1 dtypes=f32,f16
  linear_log_probs_backward([2,9,11] small, [37,11], [2,9] targets 37, compute[18] positive,
      compute[2,9]) low_precision_tolerance=4 cuda_tolerance=1
  linear_log_probs_backward "bias, accumulating"([2,9,11] small, [37,11], [2,9] targets 37,
      compute[18] positive, compute[2,9], compute[37,11], [37], compute[37])
      low_precision_tolerance=4 cuda_tolerance=1
  linear_log_probs_backward "bias, many rows"([1100,8], [530,8] small, [1100] targets 530,
      compute[1100] positive, compute[1100], _, [530], _) low_precision_tolerance=16
      cuda_tolerance=1
  linear_log_probs_backward "added to in bf16"([2,9,11], [37,11], [2,9] targets 37,
      f32[18] positive, f32[2,9], [37,11], _, _, [2] counter) {key=5, low_gradient=true}
      low_precision_tolerance=8 cuda_tolerance=1 dtypes=bf16
  linear_log_probs "capped"([2,9,11], [37,11], [2,9] targets 37) {softcap=2.0} cuda_tolerance=1
  linear_log_probs_backward "capped, bias, accumulating"([2,9,11] small, [37,11],
      [2,9] targets 37, compute[18] positive, compute[2,9], compute[37,11], [37], compute[37])
      {softcap=1.5} low_precision_tolerance=4 cuda_tolerance=1
  linear_log_probs "split"([2,9,11], [37,11], [2,9] targets 37) {axis="tensor"} cuda_tolerance=1
  linear_log_probs "split, rows of packs"([140,24], [500,24], [140] targets 500) {axis="tensor"}
      cuda_tolerance=1 dtypes=f32,bf16
  linear_log_probs "capped, split"([2,9,11], [37,11], [2,9] targets 37)
      {axis="tensor", softcap=2.0} cuda_tolerance=1
  linear_log_probs_backward "split"([2,9,11] small, [37,11], [2,9] targets 37,
      compute[18] positive, compute[2,9], compute[37,11]) {axis="tensor"}
      low_precision_tolerance=4 cuda_tolerance=1
  preference_loss([3,20], [3,20] targets 9, [3,20] places 5, f32[3,20], f32[] positive)
      {beta=0.1, label_smoothing=0.0, loss="dpo", sft_weight=0.0} dtypes=f32,f64
  preference_loss "smoothed, with SFT's loss"([2,23], [2,23] targets 9, [2,23] places 5, f32[2,23],
      f32[] positive) {beta=0.3, label_smoothing=0.2, loss="dpo", sft_weight=0.7} dtypes=f32,f64
  preference_loss "ipo"([2,23], [2,23] targets 9, [2,23] places 7, f32[2,23], f32[] positive)
      {beta=0.5, label_smoothing=0.0, loss="ipo", sft_weight=0.2} dtypes=f32,f64
  preference_loss "long documents"([2,700], [2,700] targets 9, [2,700] places 150, f32[2,700],
      f32[] positive) {beta=0.1, label_smoothing=0.0, loss="dpo", sft_weight=0.5} dtypes=f32,f64
  preference_loss_backward([3,23], [3,23] targets 9, [3,23] places 5, f32[3,23], f32[] positive,
      compute[] positive) {beta=0.3, label_smoothing=0.2, loss="dpo", sft_weight=0.7}
      dtypes=f32,f64
  preference_loss_backward "long documents"([2,700], [2,700] targets 9, [2,700] places 150,
      f32[2,700], f32[] positive, compute[] positive)
      {beta=0.1, label_smoothing=0.1, loss="dpo", sft_weight=0.5} dtypes=f32,f64
  preference_loss_backward "many short documents"([2,700], [2,700] targets 9, [2,700] places 2,
      f32[2,700], f32[] positive, compute[] positive)
      {beta=0.3, label_smoothing=0.0, loss="dpo", sft_weight=0.0} dtypes=f32,f64
  preference_loss_backward "ipo"([2,23], [2,23] targets 9, [2,23] places 7, f32[2,23],
      f32[] positive, compute[] positive)
      {beta=0.5, label_smoothing=0.0, loss="ipo", sft_weight=0.0} dtypes=f32,f64
)");

}  // namespace
}  // namespace plimsoll::ops
