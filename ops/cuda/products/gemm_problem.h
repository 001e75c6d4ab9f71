// A matrix product on the GPU, in the form in which all implementations take it:
//
//   D[m,n] = epilogue(alpha · op(A)[m,k] · op(B)[k,n] + beta · C[m,n])
//
// Row-major with explicit row strides, like ops/cpu/packed_gemm.h. op(A) is A[m,k] with row stride
// lda, or, with trans_a, the transpose of A[k,m]; likewise for B. Products are summed in float32
// and rounded once, at the end.
//
// Operands are both float32, bf16 or fp16; the result has their type or float32. Or both are 8-bit
// codes (base/float8.h), e4m3 or e5m2, for the numbers code · scale: then alpha is multiplied by
// both scales, and the result is float32, bf16 or fp16. Matrix units keep about 14 bits of sums of
// codes, and add these sums in float32 every few products along k.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/dtype.h"
#include "ops/linear/cuda_gemm_workspace.h"

namespace plimsoll::ops {

// The function that is applied to the float32 sums before they are rounded and written. gelu is the
// tanh form.
enum class GemmEpilogue : uint8_t {
  kNone,
  kBias,          // + bias[n]
  kGeluGradient,  // · ⊙ gelu'(aux)
  kSums,          // no operation; sums[m] = Σ over k of op(A) + old_sums[m], float32 as D must be;
                  // A is transposed and has no gaps between its rows
};

struct GemmProblem {
  bool trans_a = false;
  bool trans_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;  // inner dimension; with 0, D = epilogue(beta · C)
  int64_t lda = 0;
  int64_t ldb = 0;
  int64_t ldc = 0;    // row stride of C, D and aux
  int64_t batch = 1;  // number of products, this many elements apart; not with an epilogue
  int64_t stride_a = 0;
  int64_t stride_b = 0;
  int64_t stride_c = 0;
  graph::DType type_a = graph::DType::kFloat32;
  graph::DType type_b = graph::DType::kFloat32;
  graph::DType result = graph::DType::kFloat32;  // type of C, D, bias and aux
  bool tf32 = false;               // float32 operands are rounded to TF32, for the tensor cores
  bool fast_accumulation = false;  // sums of codes are added up in float32 less often, or never
  GemmEpilogue epilogue = GemmEpilogue::kNone;
  float alpha = 1;
  float beta = 0;

  bool of_codes() const { return graph::IsFloat8(type_a) || graph::IsFloat8(type_b); }
};

// Device addresses. C may be D's memory; otherwise nothing may overlap D.
struct GemmBuffers {
  const void* a = nullptr;
  const void* b = nullptr;
  const float* scale_a = nullptr;  // scale of A's codes, at a multiple of 16 bytes; nullptr means 1
  const float* scale_b = nullptr;
  const void* c = nullptr;  // read unless beta is 0
  void* d = nullptr;
  const void* bias = nullptr;
  const void* aux = nullptr;  // GELU's input, for kGeluGradient
  float* sums = nullptr;
  const float* old_sums = nullptr;  // may be `sums`; nullptr if nothing is added
  void* workspace = nullptr;        // 256-byte aligned; its content is arbitrary before and after
  int64_t workspace_bytes = 0;
};

// A part of a product with a bias, whose sums are rounded once.
//
// For 16-bit results, if a row of A, B or D doesn't begin or end at a multiple of 16 bytes,
// cuBLASLt's algorithms round the sums before they add the bias. In that case D is initialized with
// the bias, and the product is added to it. If only the number of columns is no such multiple, this
// is done only for the last few columns. Products of codes are always one part: their rows begin
// and end at such multiples.
struct GemmPart {
  GemmProblem problem;  // k = 0: each row becomes the bias
  GemmBuffers buffers;
};

// The parts, to be computed in this order. If cuBLASLt rounds once, the product itself is the only
// part.
std::vector<GemmPart> RoundedOnce(const GemmProblem& problem, const GemmBuffers& buffers);

}  // namespace plimsoll::ops
