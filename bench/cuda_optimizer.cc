// The cost of updating all of a model's parameters on a GPU, for each way to store weights and
// moments: milliseconds, the bytes that must move, and their share of the bandwidth of a copy
// measured in the same run.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/cuda_timing.h"
#include "gpu/check.h"
#include "gpu/libraries.h"
#include "ops/optimizer/optimizer.h"
#include "tests/ops/cuda_op_runner.h"

namespace plimsoll::bench {
namespace {

using graph::DType;
using graph::Shape;
using ops::CudaOpRunner;
using ops::CudaTensor;

// A model of GPT-2's architecture.
std::vector<Shape> Parameters(int64_t layers, int64_t width) {
  std::vector<Shape> shapes = {{50304, width}, {1024, width}, {width}, {width}};
  for (int64_t i = 0; i < layers; ++i) {
    shapes.insert(shapes.end(), {{width},
                                 {width},
                                 {3 * width, width},
                                 {3 * width},
                                 {width, width},
                                 {width},
                                 {width},
                                 {width},
                                 {4 * width, width},
                                 {4 * width},
                                 {width, 4 * width},
                                 {width}});
  }
  return shapes;
}

struct Form {
  const char* label;
  DType p;
  int master_bytes;  // 0, 2 or 4
  DType moments;
};

constexpr Form kForms[] = {
    {"float32", DType::kFloat32, 0, DType::kFloat32},
    {"bf16 + remainder, f32 moments", DType::kBFloat16, 2, DType::kFloat32},
    {"bf16 + remainder, bf16 moments", DType::kBFloat16, 2, DType::kBFloat16},
    {"bf16 + remainder, 8-bit moments", DType::kBFloat16, 2, DType::kUInt8},
    {"f16 + float32, f32 moments", DType::kFloat16, 4, DType::kFloat32},
    {"bf16 rounded, bf16 moments", DType::kBFloat16, 0, DType::kBFloat16},
};

// All bytes are 0x3c: plausible numbers in every type.
CudaTensor Tensor(DType dtype, const Shape& shape) {
  const CudaTensor tensor({dtype, shape});
  gpu::Check(cudaMemset(tensor.data(), 0x3c, static_cast<size_t>(tensor.type().bytes())),
             "cudaMemset");
  return tensor;
}

struct Scalars {
  CudaTensor lr{ops::Values(DType::kFloat32, {}, {1e-4})};
  CudaTensor count{ops::Values(DType::kInt32, {}, {7})};
  CudaTensor clip{ops::Values(DType::kFloat32, {}, {0.5})};
  CudaTensor apply{ops::Values(DType::kInt32, {}, {1})};
  CudaTensor rng{ops::Values(DType::kInt32, {2}, {1, 2})};
};

// One update, in place.
std::unique_ptr<CudaOpRunner> Update(const Form& form, const Shape& shape, const Scalars& s,
                                     bool decays, int64_t key) {
  const CudaTensor p = Tensor(form.p, shape), g = Tensor(DType::kFloat32, shape);
  const CudaTensor m = Tensor(form.moments, shape), v = Tensor(form.moments, shape);
  const bool coded = form.moments == DType::kUInt8;
  const Shape scales = coded ? ops::ScalesShape(shape) : Shape{0};
  const CudaTensor m_scales = Tensor(DType::kFloat32, scales);
  const CudaTensor v_scales = Tensor(DType::kFloat32, scales);
  const CudaTensor master = Tensor(form.master_bytes == 2 ? DType::kInt16 : DType::kFloat32,
                                   form.master_bytes > 0 ? shape : Shape{0});
  const auto when = [](bool present, const CudaTensor& x) { return present ? &x : nullptr; };
  auto runner = std::make_unique<CudaOpRunner>(
      "adamw",
      std::vector<const CudaTensor*>{&p, &g, &m, &v, &s.lr, &s.count, &s.clip, &s.apply,
                                     when(form.master_bytes > 0, master), when(coded, m_scales),
                                     when(coded, v_scales), &s.rng},
      graph::Attributes{{"beta1", 0.9},
                        {"beta2", 0.95},
                        {"eps", 1e-8},
                        {"weight_decay", decays ? 0.1 : 0.0},
                        {"key", key}},
      std::vector<bool>{true, true, true, form.master_bytes > 0, coded, coded});
  runner->Share(0, p);
  runner->Share(1, m);
  runner->Share(2, v);
  if (form.master_bytes > 0) runner->Share(3, master);
  if (coded) runner->Share(4, m_scales);
  if (coded) runner->Share(5, v_scales);
  return runner;
}

void Measure(const char* model, const std::vector<Shape>& shapes, const Form& form, double copy,
             gpu::Libraries& libraries, cudaStream_t stream) {
  const Scalars scalars;
  std::vector<std::unique_ptr<CudaOpRunner>> updates;
  std::vector<ops::CudaContext> contexts;
  double bytes = 0;
  for (const Shape& shape : shapes) {
    updates.push_back(
        Update(form, shape, scalars, shape.rank() > 1, static_cast<int64_t>(updates.size())));
    contexts.push_back(updates.back()->Context(libraries, stream));
    bytes += updates.back()->bytes();
  }
  const double seconds =
      MedianSeconds(stream, [&] { ops::FindCudaKernel("adamw")->run_group(contexts); });
  std::printf("%-11s %-32s %8.3f ms %8.2f GB %8.0f GB/s %6.1f %%\n", model, form.label,
              seconds * 1e3, bytes * 1e-9, bytes / seconds * 1e-9, 100 * bytes / seconds / copy);
}

void Run(const std::vector<std::string>&) {
  gpu::Libraries libraries;
  const cudaStream_t stream = NewStream();
  const double copy = PrintCopyBandwidth(libraries.properties().name, stream);
  for (const Form& form : kForms) {
    Measure("gpt2-124m", Parameters(12, 768), form, copy, libraries, stream);
    Measure("gpt2-1558m", Parameters(48, 1600), form, copy, libraries, stream);
  }
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) { return plimsoll::bench::Main(argc, argv, plimsoll::bench::Run); }
