// Attention's rate on a GPU, forward and backward, at the shapes of real models: in bf16, without
// and with dropout, and in float32; and generation's attention over a long cache. All widths, masks
// and types are measured by cuda_attention_paths. Counts the FLOPs of the scores that a causal mask
// leaves: 4 for each score and each element of a head forward, 10 backward.
//
//   cuda_attention [WORD…]     only lines that contain one of the words
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "bench/cuda_timing.h"
#include "bench/repeated_values.h"
#include "gpu/libraries.h"
#include "tests/ops/cuda_op_runner.h"

namespace plimsoll::bench {
namespace {

using graph::Attributes;
using graph::DType;
using ops::CudaOpRunner;
using ops::CudaTensor;

struct Case {
  const char* name;
  int64_t batch, length, heads, kv_heads, head;
  bool causal = true;
  DType dtype = DType::kBFloat16;
  double dropout = 0;
};

void Measure(const Case& c, gpu::Libraries& libraries, cudaStream_t stream) {
  const Attributes attributes{{"heads", c.heads},
                              {"kv_heads", c.kv_heads},
                              {"causal", c.causal},
                              {"dropout", c.dropout},
                              {"key", int64_t{1}}};
  const CudaTensor qkv =
      NormalValues(c.dtype, {c.batch, c.length, (c.heads + 2 * c.kv_heads) * c.head}, 1);
  const CudaTensor dout = NormalValues(c.dtype, {c.batch, c.length, c.heads * c.head}, 2);
  const CudaTensor rng(ops::Values(DType::kInt32, {2}, {3, 4}));
  const CudaTensor* const given = c.dropout > 0 ? &rng : nullptr;
  const CudaOpRunner forward("attention", {&qkv, given}, attributes);
  forward.Run(libraries);
  const CudaOpRunner backward("attention_backward",
                              {&qkv, &forward.output(0), &forward.output(1), &dout, given},
                              attributes);
  backward.Run(libraries);
  const double scores =
      static_cast<double>(c.batch * c.heads * c.length) *
      (c.causal ? static_cast<double>(c.length + 1) / 2 : static_cast<double>(c.length));
  const double product = 2e-9 * scores * static_cast<double>(c.head);
  const double f = 1e3 * MedianSeconds(stream, [&] { forward.Enqueue(libraries, stream); });
  const double b = 1e3 * MedianSeconds(stream, [&] { backward.Enqueue(libraries, stream); });
  std::printf(
      "%-20s %-5s %-4s B%-3ld T%-5ld H%-3ld G%-3ld hd%-4ld forward %8.4f ms %6.1f TFLOP/s   "
      "backward %8.4f ms %6.1f TFLOP/s   workspace %7.1f MB\n",
      c.name, c.causal ? "" : "full", std::string(graph::Name(c.dtype)).c_str(), c.batch, c.length,
      c.heads, c.kv_heads, c.head, f, 2 * product / f, b, 5 * product / b,
      static_cast<double>(backward.workspace_bytes()) * 1e-6);
}

void MeasureCached(const Case& c, int64_t window, gpu::Libraries& libraries, cudaStream_t stream) {
  const CudaTensor qkv =
      NormalValues(c.dtype, {c.batch, window, (c.heads + 2 * c.kv_heads) * c.head}, 1);
  const CudaTensor keys = NormalValues(c.dtype, {c.batch, c.kv_heads, c.length, c.head}, 2);
  const CudaTensor values = NormalValues(c.dtype, {c.batch, c.kv_heads, c.length, c.head}, 3);
  const CudaTensor position(
      ops::Values(DType::kInt32, {1}, {static_cast<double>(c.length - window)}));
  CudaOpRunner op("attention_cached", {&qkv, &keys, &values, &position},
                  {{"heads", c.heads}, {"kv_heads", c.kv_heads}});
  op.Share(1, keys);
  op.Share(2, values);
  op.Run(libraries);
  const double ms = 1e3 * MedianSeconds(stream, [&] { op.Enqueue(libraries, stream); });
  const double bytes = 2 * static_cast<double>(keys.type().bytes());
  std::printf(
      "%-20s %-5s %-4s R%-3ld C%-5ld H%-3ld G%-3ld hd%-4ld %ld new tokens: %8.4f ms %6.0f GB/s of "
      "the caches\n",
      c.name, "", std::string(graph::Name(c.dtype)).c_str(), c.batch, c.length, c.heads, c.kv_heads,
      c.head, window, ms, bytes / ms * 1e-6);
}

void Run(const std::vector<std::string>& words) {
  gpu::Libraries libraries;
  const cudaStream_t stream = NewStream();
  std::printf("%s, cuDNN %zu\n", libraries.properties().name, cudnnGetVersion());
  const auto wanted = [&](const Case& c) {
    return words.empty() || std::any_of(words.begin(), words.end(), [&](const std::string& word) {
             return std::strstr(c.name, word.c_str()) != nullptr;
           });
  };
  const std::vector<Case> cases = {
      {"GPT-2 124M", 32, 1024, 12, 12, 64},
      {"GPT-2 1558M", 16, 1024, 25, 25, 64},
      {"Qwen2.5 0.5B", 32, 1024, 14, 2, 64},
      {"Qwen2.5 1.5B", 32, 1024, 12, 2, 128},
      {"124M, one sequence", 1, 1024, 12, 12, 64},
      {"124M, full", 32, 1024, 12, 12, 64, false},
      {"124M, 4096 tokens", 8, 4096, 12, 12, 64},
      {"124M, dropout", 32, 1024, 12, 12, 64, true, DType::kBFloat16, 0.1},
      {"Qwen 1.5B, dropout", 32, 1024, 12, 2, 128, true, DType::kBFloat16, 0.1},
      {"124M, float32", 32, 1024, 12, 12, 64, true, DType::kFloat32},
      {"hd 128, float32", 8, 1024, 12, 12, 128, true, DType::kFloat32},
  };
  for (const Case& c : cases) {
    if (wanted(c)) Measure(c, libraries, stream);
  }
  const Case few{"generation", 1, 1024, 12, 12, 64}, many{"generation", 64, 1024, 12, 12, 64};
  const Case shared{"generation", 32, 4096, 14, 2, 64};
  for (const Case& c : {few, many, shared}) {
    if (wanted(c)) MeasureCached(c, 1, libraries, stream);
  }
  if (wanted(few)) MeasureCached({"generation", 8, 1024, 12, 12, 64}, 1024, libraries, stream);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) { return plimsoll::bench::Main(argc, argv, plimsoll::bench::Run); }
