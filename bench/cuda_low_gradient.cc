// Gradients of weights in bf16 on a Hopper GPU, at the shapes of real models: TFLOP/s of the first
// micro-step's (a product that rounds to the nearest) and of the later ones', which are added with
// stochastic rounding, in slices and in a product's epilogue; beside them, the sum in float32.
//
//   cuda_low_gradient [WORD…]     only cases with one of the words in their names: 1.5B, 7B, loss
//
// Ways take turns, after seconds of warm-up. Operands are normally distributed.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/low_precision.h"
#include "bench/cuda_timing.h"
#include "gpu/check.h"
#include "gpu/libraries.h"
#include "ops/cuda/products/gemm_forms.h"
#include "ops/cuda/products/low_gradient.h"

namespace plimsoll::bench {
namespace {

using graph::DType;

constexpr int kTurns = 15;
constexpr double kWarmup = 2;  // seconds

struct Case {
  std::string name;
  int64_t rows, in, out;
};

class Memory {
 public:
  explicit Memory(int64_t bytes) { gpu::Check(cudaMalloc(&address_, bytes), "cudaMalloc"); }
  ~Memory() { cudaFree(address_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* get() const { return address_; }

 private:
  void* address_ = nullptr;
};

void FillNormal(const Memory& memory, int64_t elements) {
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  std::vector<BFloat16> values(std::min(elements, int64_t{1} << 22));
  for (BFloat16& value : values) value = BFloat16{ToBf16(normal(generator))};
  for (int64_t at = 0; at < elements; at += static_cast<int64_t>(values.size())) {
    const int64_t count = std::min(static_cast<int64_t>(values.size()), elements - at);
    gpu::Check(cudaMemcpy(static_cast<BFloat16*>(memory.get()) + at, values.data(), count * 2,
                          cudaMemcpyHostToDevice),
               "cudaMemcpy");
  }
}

void Measure(gpu::Libraries& libraries, cudaStream_t stream, const Case& c) {
  const Memory x(c.rows * c.in * 2), dy(c.rows * c.out * 2), gradient(c.in * c.out * 2),
      sum(c.in * c.out * 4), slice(ops::LowGradientBytes(c.out, c.in)),
      workspace(ops::kGemmWorkspaceBytes), rng(8);
  FillNormal(x, c.rows * c.in);
  FillNormal(dy, c.rows * c.out);
  for (const auto& [memory, bytes] :
       {std::pair(&gradient, c.in * c.out * 2), std::pair(&sum, c.in * c.out * 4),
        std::pair(&rng, int64_t{8})}) {
    gpu::Check(cudaMemset(memory->get(), 0, bytes), "cudaMemset");
  }
  ops::LowGradient first;
  first.problem.trans_a = true;
  first.problem.m = first.problem.lda = c.out;
  first.problem.n = first.problem.ldb = first.problem.ldc = c.in;
  first.problem.k = c.rows;
  first.problem.operands = first.problem.result = DType::kBFloat16;
  first.buffers.a = dy.get();
  first.buffers.b = x.get();
  first.buffers.d = gradient.get();
  first.buffers.workspace = workspace.get();
  first.buffers.workspace_bytes = ops::kGemmWorkspaceBytes;
  first.random.rng = static_cast<const int32_t*>(rng.get());
  first.wide = slice.get();
  ops::LowGradient later = first;
  later.buffers.c = gradient.get();
  ops::LowGradient wide = first;
  wide.problem.result = DType::kFloat32;
  wide.problem.beta = 1;
  wide.buffers.c = wide.buffers.d = sum.get();
  ops::PrepareLowGradient(libraries, stream, first);
  ops::PrepareSlices(libraries, stream, later);
  ops::PrepareGemm(libraries, stream, wide.problem, wide.buffers);
  struct Way {
    const char* name;
    std::function<void()> run;
    std::vector<double> times = {};
  };
  std::vector<Way> ways = {
      {"first", [&] { ops::ComputeLowGradient(libraries, stream, first); }},
      {"float32", [&] { ops::Gemm(libraries, stream, wide.problem, wide.buffers); }},
      {"slices", [&] { ops::AddInSlices(libraries, stream, later); }},
      {"epilogue", [&] { ops::AddInEpilogue(stream, later, libraries.multiprocessors()); }},
  };
  cudaEvent_t begin, end;
  gpu::Check(cudaEventCreate(&begin), "cudaEventCreate");
  gpu::Check(cudaEventCreate(&end), "cudaEventCreate");
  const auto time = [&](Way& way) {
    gpu::Check(cudaEventRecord(begin, stream), "cudaEventRecord");
    for (int i = 0; i < 4; ++i) way.run();
    gpu::Check(cudaEventRecord(end, stream), "cudaEventRecord");
    gpu::Check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    gpu::Check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    return milliseconds * 1e-3 / 4;
  };
  for (double warm = 0; warm < kWarmup;) warm += 4 * time(ways[0]);
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Way& way : ways) way.times.push_back(time(way));
  }
  std::printf("%-14s %6ld x %6ld, %6ld rows", c.name.c_str(), static_cast<long>(c.out),
              static_cast<long>(c.in), static_cast<long>(c.rows));
  for (Way& way : ways) {
    std::sort(way.times.begin(), way.times.end());
    const double seconds = way.times[kTurns / 2];
    std::printf(" | %s %.3f ms %.0f", way.name, seconds * 1e3,
                2e-12 * double(c.rows) * double(c.in) * double(c.out) / seconds);
  }
  std::printf("\n");
  std::fflush(stdout);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
}

void Run(const std::vector<std::string>& words) {
  gpu::Libraries libraries;
  cudaStream_t stream = NewStream();
  const Case cases[] = {
      {"7B up", 8192, 3584, 37888},    {"7B down", 8192, 18944, 3584},
      {"7B qkv", 8192, 3584, 4608},    {"7B proj", 8192, 3584, 3584},
      {"7B loss", 1024, 3584, 152064}, {"7B loss", 2048, 3584, 152064},
      {"1.5B up", 32768, 1536, 17920}, {"1.5B down", 32768, 8960, 1536},
      {"1.5B qkv", 32768, 1536, 2048}, {"1.5B loss", 2048, 1536, 151936},
  };
  if (!ops::OnHopper()) throw UserError("there is no Hopper GPU, or no code for it");
  for (const Case& c : cases) {
    const auto wanted = [&](const std::string& word) { return c.name.find(word) != c.name.npos; };
    if (words.empty() || std::any_of(words.begin(), words.end(), wanted)) {
      Measure(libraries, stream, c);
    }
  }
  gpu::Check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) { return plimsoll::bench::Main(argc, argv, plimsoll::bench::Run); }
