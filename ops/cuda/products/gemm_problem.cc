#include "ops/cuda/products/gemm_problem.h"

namespace plimsoll::ops {
namespace {

constexpr int64_t kEvenBytes = 16;

bool Even(int64_t bytes) { return bytes % kEvenBytes == 0; }

bool Even(const void* data, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % kEvenBytes == 0 && Even(bytes);
}

// Whether rows of A and B begin and end at multiples of 16 bytes, and rows of D begin at such
// multiples.
bool RowsEven(const GemmProblem& p, const GemmBuffers& buffers) {
  const int64_t a = graph::ByteSize(p.type_a), b = graph::ByteSize(p.type_b);
  return Even(buffers.a, p.lda * a) && Even((p.trans_a ? p.m : p.k) * a) &&
         Even(buffers.b, p.ldb * b) && Even((p.trans_b ? p.k : p.n) * b) &&
         Even(buffers.d, p.ldc * graph::ByteSize(p.result));
}

// The columns [first, first + count) of the product; first is 0 unless B is transposed.
GemmPart Columns(const GemmPart& whole, int64_t first, int64_t count) {
  GemmPart part = whole;
  const int64_t operand = graph::ByteSize(part.problem.type_b);
  const int64_t result = graph::ByteSize(part.problem.result);
  part.problem.n = count;
  part.buffers.b = static_cast<const char*>(part.buffers.b) + first * part.problem.ldb * operand;
  part.buffers.d = static_cast<char*>(part.buffers.d) + first * result;
  part.buffers.bias = static_cast<const char*>(part.buffers.bias) + first * result;
  return part;
}

}  // namespace

std::vector<GemmPart> RoundedOnce(const GemmProblem& problem, const GemmBuffers& buffers) {
  const GemmPart whole{problem, buffers};
  const int64_t result = graph::ByteSize(problem.result);
  const bool rows_even = RowsEven(problem, buffers);
  if (problem.of_codes() || problem.epilogue != GemmEpilogue::kBias || problem.beta != 0 ||
      problem.result == graph::DType::kFloat32 || (rows_even && Even(problem.n * result))) {
    return {whole};
  }
  std::vector<GemmPart> parts;
  const int64_t even = rows_even ? problem.n - problem.n % (kEvenBytes / result) : 0;
  if (even > 0) parts.push_back(Columns(whole, 0, even));
  GemmPart bias = Columns(whole, even, problem.n - even);
  GemmPart product = bias;
  bias.problem.k = 0;
  product.problem.epilogue = GemmEpilogue::kNone;
  product.problem.beta = 1;
  product.buffers.c = product.buffers.d;
  product.buffers.bias = nullptr;
  parts.push_back(bias);
  parts.push_back(product);
  return parts;
}

}  // namespace plimsoll::ops
