// GFLOP/s of our GEMM and of the libraries that this machine has, at GPT-2 124M's products for 1024
// tokens: forward, input gradient (dX) and weight gradient (dW) of its layers, and the vocabulary.
//
//   bazel run //bench:gemm -- [threads] [seconds per measurement]
//
// The last column is ours as a share of the best other library's rate.
#include "ops/cpu/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "bench/gemm_peak.h"

namespace plimsoll::bench {
namespace {

const std::vector<GemmShape>& Shapes() {
  static const std::vector<GemmShape> shapes = {
      {"square", false, false, 2048, 2048, 2048},    {"qkv", false, false, 1024, 2304, 768},
      {"proj", false, false, 1024, 768, 768},        {"fc", false, false, 1024, 3072, 768},
      {"out", false, false, 1024, 768, 3072},        {"qkv dX", false, true, 1024, 768, 2304},
      {"proj dX", false, true, 1024, 768, 768},      {"fc dX", false, true, 1024, 768, 3072},
      {"out dX", false, true, 1024, 3072, 768},      {"qkv dW", true, false, 768, 2304, 1024},
      {"proj dW", true, false, 768, 768, 1024},      {"fc dW", true, false, 768, 3072, 1024},
      {"out dW", true, false, 3072, 768, 1024},      {"vocab 256", false, true, 256, 50304, 768},
      {"vocab 1024", false, true, 1024, 50304, 768}, {"vocab dX", false, false, 256, 768, 50304},
      {"vocab dW", true, false, 50304, 768, 256},
  };
  return shapes;
}

int Main(int argc, char** argv) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int threads = argc > 1 ? std::atoi(argv[1]) : cores;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.3;
  if (threads < 1 || !(seconds > 0)) {
    fmt::print(stderr, "usage: gemm [threads ≥ 1] [seconds > 0]\n");
    return 2;
  }
  ThreadPool pool(threads);
  fmt::print("float32, {} threads, {}, GFLOP/s\n\n", threads,
             cpu::ActiveGemmKernel() == cpu::GemmKernel::kAvx512 ? "AVX-512" : "AVX2");
  double log_sum = 0;
  bool header = true;
  for (const GemmShape& shape : Shapes()) {
    const std::vector<GemmRate> rates = MeasureGemm(pool, shape, seconds);
    if (header) {
      fmt::print("{:<11}{:>6}{:>7}{:>7}  ", "product", "m", "n", "k");
      for (const GemmRate& rate : rates) fmt::print("{:>10}", rate.library);
      fmt::print("{:>12}\n", "ours/best");
      header = false;
    }
    fmt::print("{:<11}{:>6}{:>7}{:>7}  ", shape.name, shape.m, shape.n, shape.k);
    double best = 0;
    for (const GemmRate& rate : rates) {
      fmt::print("{:>10.1f}", rate.gflops);
      if (&rate != &rates.front()) best = std::max(best, rate.gflops);
    }
    const double ratio = rates.front().gflops / best;
    log_sum += std::log(ratio);
    fmt::print("{:>12.2f}\n", ratio);
    std::fflush(stdout);
  }
  fmt::print("\ngeometric mean of ours/best: {:.2f}\n",
             std::exp(log_sum / static_cast<double>(Shapes().size())));
  return 0;
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  try {
    return plimsoll::bench::Main(argc, argv);
  } catch (const plimsoll::UserError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
