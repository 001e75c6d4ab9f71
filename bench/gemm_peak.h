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

namespace plimsoll::bench {

// C[m,n] = op(A) · op(B), row-major.
struct GemmShape {
  bool trans_a = false;
  bool trans_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};

struct GemmRate {
  double gflops = 0;
  std::string library;  // "plimsoll", "eigen", "openblas", "onednn"
};

// Rates in float32, one for every library present, ours first. Each is run for about `seconds`.
std::vector<GemmRate> MeasureGemm(ThreadPool& pool, const GemmShape& shape, double seconds);

// The best rate of any library at 2048³ and at GPT-2's widest layer, on all threads of the pool.
GemmRate MeasureGemmPeak(ThreadPool& pool, double seconds = 0.5);

}  // namespace plimsoll::bench
