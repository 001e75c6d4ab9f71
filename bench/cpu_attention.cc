// Attention's rate on this machine, as a share of GEMM's: forward and backward pass of GPT-2 124M's
// heads at several sequence lengths. Counts the FLOPs of the scores that a causal mask leaves.
//
//   attention [THREADS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/ops/op_runner.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;

// Seconds of the fastest of several runs.
template <typename Body>
double Best(Body body) {
  double best = 1e30;
  const auto start = std::chrono::steady_clock::now();
  for (int run = 0; run < 30; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    const auto end = std::chrono::steady_clock::now();
    best = std::min(best, std::chrono::duration<double>(end - begin).count());
    if (run > 2 && end - start > std::chrono::seconds(3)) break;
  }
  return best;
}

double GemmRate(int threads) {
  constexpr int64_t kSize = 2048;
  const TestTensor a = NormalValues(DType::kFloat32, {kSize, kSize}, 1);
  const TestTensor b = NormalValues(DType::kFloat32, {kSize, kSize}, 2);
  OpRunner runner("linear", {&a, &b, nullptr}, {}, threads);
  return 2.0 * kSize * kSize * kSize / Best([&] { runner.Run(); });
}

void Measure(int64_t batch, int64_t length, int64_t heads, int64_t kv_heads, int64_t head,
             int threads, double gemm) {
  const Attributes attributes{{"heads", heads},
                              {"kv_heads", kv_heads},
                              {"causal", true},
                              {"dropout", 0.0},
                              {"key", int64_t{0}}};
  const TestTensor qkv =
      NormalValues(DType::kFloat32, {batch, length, (heads + 2 * kv_heads) * head}, 1);
  const TestTensor dout = NormalValues(DType::kFloat32, {batch, length, heads * head}, 2);
  OpRunner forward("attention", {&qkv, nullptr}, attributes, threads);
  const double forward_time = Best([&] { forward.Run(); });
  OpRunner backward("attention_backward",
                    {&qkv, &forward.output(0), &forward.output(1), &dout, nullptr}, attributes,
                    threads);
  const double backward_time = Best([&] { backward.Run(); });
  const double product = 2.0 * batch * heads * head * (length * (length + 1.0) / 2);
  std::printf(
      "B=%-2ld T=%-5ld H=%-2ld G=%-2ld hd=%-3ld  forward %7.2f ms %6.1f GFLOP/s %3.0f %%   "
      "backward %7.2f ms %6.1f GFLOP/s %3.0f %%\n",
      batch, length, heads, kv_heads, head, forward_time * 1e3, 2 * product / forward_time * 1e-9,
      200 * product / forward_time / gemm, backward_time * 1e3, 5 * product / backward_time * 1e-9,
      500 * product / backward_time / gemm);
}

}  // namespace
}  // namespace plimsoll::ops

int main(int argc, char** argv) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : cores;
  const double gemm = plimsoll::ops::GemmRate(threads);
  std::printf("%d threads; float32 GEMM 2048: %.1f GFLOP/s\n", threads, gemm * 1e-9);
  for (const int64_t length : {64, 256, 1024, 2048}) {
    plimsoll::ops::Measure(4096 / length / 4 + 1, length, 12, 12, 64, threads, gemm);
  }
  plimsoll::ops::Measure(4, 256, 12, 12, 64, threads, gemm);
  plimsoll::ops::Measure(4, 1024, 12, 12, 64, threads, gemm);
  plimsoll::ops::Measure(1, 1024, 32, 8, 128, threads, gemm);
}
