// GFLOP/s of our GEMM and of the libraries on this machine, at GPT-2 124M's products for 1024
// tokens: forward, input gradient (dX) and weight gradient (dW) of its layers, and the vocabulary.
//
// bazel run //bench:gemm -- [threads] [seconds per measurement] [float32 | bf16 | fp16]
//
// The last column is our rate as a share of the best other library's rate; in bf16 and fp16, in
// which the libraries are not measured, as a share of our own rate in float32.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "bench/gemm_peak.h"
#include "graph/dtype.h"
#include "ops/cpu/packed_gemm.h"

namespace plimsoll::bench {
namespace {

const std::vector<GemmShape>& Shapes() {
  static const std::vector<GemmShape> shapes = {
      {"square", false, false, 2048, 2048, 2048},
      {"qkv", false, false, 1024, 2304, 768},
      {"proj", false, false, 1024, 768, 768},
      {"fc", false, false, 1024, 3072, 768},
      {"out", false, false, 1024, 768, 3072},
      {"qkv dX", false, true, 1024, 768, 2304},
      {"proj dX", false, true, 1024, 768, 768},
      {"fc dX", false, true, 1024, 768, 3072},
      {"out dX", false, true, 1024, 3072, 768},
      {"qkv dW", true, false, 768, 2304, 1024, true},
      {"proj dW", true, false, 768, 768, 1024, true},
      {"fc dW", true, false, 768, 3072, 1024, true},
      {"out dW", true, false, 3072, 768, 1024, true},
      {"vocab 256", false, true, 256, 50304, 768, true},
      {"vocab 1024", false, true, 1024, 50304, 768, true},
      {"vocab dX", false, false, 256, 768, 50304},
      {"vocab dW", true, false, 50304, 768, 256, true},
  };
  return shapes;
}

// Prints the lines of the table; returns the geometric mean of the last column.
double CompareWithLibraries(ThreadPool& pool, double seconds) {
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
  return std::exp(log_sum / static_cast<double>(Shapes().size()));
}

double CompareWithFloat32(ThreadPool& pool, double seconds, graph::DType dtype) {
  double log_sum = 0;
  fmt::print("{:<11}{:>6}{:>7}{:>7}  {:>10}{:>10}{:>12}\n", "product", "m", "n", "k",
             graph::Name(dtype), "float32", "of float32");
  for (const GemmShape& shape : Shapes()) {
    const LowPrecisionRates rates = MeasureLowPrecision(pool, shape, dtype, seconds);
    const double ratio = rates.low / rates.float32;
    log_sum += std::log(ratio);
    fmt::print("{:<11}{:>6}{:>7}{:>7}  {:>10.1f}{:>10.1f}{:>12.2f}\n", shape.name, shape.m, shape.n,
               shape.k, rates.low, rates.float32, ratio);
    std::fflush(stdout);
  }
  return std::exp(log_sum / static_cast<double>(Shapes().size()));
}

int Main(int argc, char** argv) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int threads = argc > 1 ? std::atoi(argv[1]) : cores;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.3;
  const std::string type = argc > 3 ? argv[3] : "float32";
  if (threads < 1 || !(seconds > 0) || (type != "float32" && type != "bf16" && type != "fp16")) {
    fmt::print(stderr, "usage: gemm [threads ≥ 1] [seconds > 0] [float32 | bf16 | fp16]\n");
    return 2;
  }
  ThreadPool pool(threads);
  fmt::print("{}, {} threads, {}, GFLOP/s\n\n", type, threads,
             cpu::ActiveGemmKernel() == cpu::GemmKernel::kAvx512 ? "AVX-512" : "AVX2");
  const double mean =
      type == "float32"
          ? CompareWithLibraries(pool, seconds)
          : CompareWithFloat32(pool, seconds,
                               type == "bf16" ? graph::DType::kBFloat16 : graph::DType::kFloat16);
  fmt::print("\ngeometric mean of the last column: {:.2f}\n", mean);
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
