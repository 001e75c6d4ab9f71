// The machine's GEMM rate, of which other benchmarks report their rates as a share.
//
// Candidates are our GEMM, Eigen, and, if the machine has them, OpenBLAS and oneDNN. The last two
// are opened at run time (libopenblas.so.0, libdnnl.so.2), so nothing depends on them. All
// candidates run on the same number of threads. Rates are GFLOP/s, 2·m·n·k operations a product,
// the best of several runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "graph/dtype.h"

namespace plimsoll::bench {

// C[m,n] = op(A) · op(B), row-major.
struct GemmShape {
  std::string name;
  bool trans_a = false;
  bool trans_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  // C is float32 for any type of A and B, as for logits and gradients of weights.
  bool float_result = false;
};

struct GemmRate {
  std::string library;  // "plimsoll", "eigen", "openblas", "onednn"
  double gflops = 0;
};

// Rates in float32, one for every library present, ours first. Each is run for about `seconds`.
std::vector<GemmRate> MeasureGemm(ThreadPool& pool, const GemmShape& shape, double seconds);

// Our rates with A, B and C in `dtype`, bf16 or f16 (except with float_result), and with all in
// float32. The runs take turns for about 2 · `seconds`, so that other load on the machine affects
// both.
struct LowPrecisionRates {
  double low = 0;
  double float32 = 0;
};
LowPrecisionRates MeasureLowPrecision(ThreadPool& pool, const GemmShape& shape, graph::DType dtype,
                                      double seconds);

struct GemmPeak {
  double gflops = 0;
  std::string library;
};

// The best rate of any library at 2048³ and at GPT-2's widest layer, on all threads of the pool.
GemmPeak MeasureGemmPeak(ThreadPool& pool, double seconds = 0.5);

}  // namespace plimsoll::bench
