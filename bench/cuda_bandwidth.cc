// The share of a plain copy's bandwidth, measured in the same run, that memory-bound CUDA kernels
// reach: milliseconds, the bytes that must move (each argument once), and the share.
//
//   cuda_bandwidth [OP…]
//
// Kernels run through the registry, captured into CUDA graphs, on so many sets of operands that the
// caches hold none of them.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/low_precision.h"
#include "bench/cuda_bandwidth_cases.h"
#include "bench/cuda_timing.h"
#include "gpu/check.h"
#include "gpu/libraries.h"
#include "tests/ops/cuda_op_runner.h"

namespace plimsoll::bench {
namespace {

using graph::DType;
using graph::TensorType;
using ops::CudaOpRunner;
using ops::CudaTensor;

// More than the second-level cache of any GPU.
constexpr double kUncached = 600e6;

// Elements of one kind, repeated through a tensor.
ops::TestTensor Pattern(const Input& input, int64_t elements) {
  ops::TestTensor pattern({input.type.dtype, {elements}});
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> uniform;
  for (int64_t i = 0; i < elements; ++i) {
    switch (input.fill) {
      case Fill::kNormal:
        pattern.set(i, normal(generator));
        break;
      case Fill::kPositive:
        pattern.set(i, 0.5 + uniform(generator));
        break;
      case Fill::kTokens: {
        const double u = uniform(generator);
        const int64_t token = std::llround(std::pow(static_cast<double>(input.limit), u)) - 1;
        pattern.set(i, static_cast<double>(std::clamp<int64_t>(token, 0, input.limit - 1)));
        break;
      }
      case Fill::kRng:
        pattern.set(i, static_cast<double>(i + 3));
        break;
      case Fill::kOne:
      case Fill::kAbsent:
        pattern.set(i, 1);
        break;
    }
  }
  return pattern;
}

CudaTensor Filled(const Input& input) {
  const CudaTensor tensor(input.type);
  const int64_t elements = input.type.shape.elements();
  const ops::TestTensor pattern = Pattern(input, std::min<int64_t>(elements, 1 << 20));
  const int64_t step = pattern.type().bytes();
  auto* data = static_cast<char*>(tensor.data());
  for (int64_t at = 0; at < input.type.bytes(); at += step) {
    gpu::Check(cudaMemcpy(data + at, pattern.data(), std::min(step, input.type.bytes() - at),
                          cudaMemcpyDefault),
               "cudaMemcpy");
  }
  return tensor;
}

std::unique_ptr<CudaOpRunner> Runner(const Case& c) {
  std::vector<CudaTensor> tensors;
  for (const Input& input : c.inputs) {
    tensors.push_back(input.fill == Fill::kAbsent ? CudaTensor() : Filled(input));
  }
  std::vector<const CudaTensor*> arguments;
  for (size_t i = 0; i < tensors.size(); ++i) {
    arguments.push_back(c.inputs[i].fill == Fill::kAbsent ? nullptr : &tensors[i]);
  }
  std::vector<bool> want(graph::OpRegistry::Get().Require(c.op).outputs.size(), true);
  for (int i : c.left_out) want[i] = false;
  auto runner = std::make_unique<CudaOpRunner>(c.op, arguments, c.attributes, want);
  for (const graph::InPlacePair& pair : c.in_place) runner->Share(pair.output, tensors[pair.input]);
  return runner;
}

void Measure(const Case& c, double copy, gpu::Libraries& libraries, cudaStream_t stream) {
  std::vector<std::unique_ptr<CudaOpRunner>> sets;
  sets.push_back(Runner(c));
  const double bytes = c.bytes > 0 ? c.bytes : sets[0]->bytes();
  const int wanted = std::clamp(static_cast<int>(std::ceil(kUncached / bytes)), 2, 16);
  while (static_cast<int>(sets.size()) < wanted) sets.push_back(Runner(c));
  gpu::Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // the operands are ready
  for (const auto& set : sets) set->Prepare(libraries, stream);
  const double seconds = MedianSeconds(stream,
                                       [&] {
                                         for (const auto& set : sets)
                                           set->Enqueue(libraries, stream);
                                       }) /
                         static_cast<double>(sets.size());
  std::printf("%-26s %-38s %9.4f ms %9.1f MB %8.0f GB/s %6.1f %%\n", c.op.c_str(), c.label.c_str(),
              seconds * 1e3, bytes * 1e-6, bytes / seconds * 1e-9, 100 * bytes / seconds / copy);
}

void Run(const std::vector<std::string>& only) {
  gpu::Libraries libraries;
  const cudaStream_t stream = NewStream();
  const double copy = PrintCopyBandwidth(libraries.properties().name, stream);
  for (const Case& c : Cases()) {
    if (!only.empty() && std::find(only.begin(), only.end(), c.op) == only.end()) continue;
    if (ops::FindCudaKernel(c.op) == nullptr) {
      std::printf("%-26s %-38s no CUDA kernel\n", c.op.c_str(), c.label.c_str());
      continue;
    }
    Measure(c, copy, libraries, stream);
  }
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) { return plimsoll::bench::Main(argc, argv, plimsoll::bench::Run); }
