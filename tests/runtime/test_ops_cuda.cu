// CUDA kernels of the test ops: one thread for each element of the output.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "gpu/check.h"
#include "ops/cuda_kernel.h"

namespace plimsoll {
namespace {

using ops::CudaContext;
using ops::CudaKernelRegistration;

constexpr int kThreads = 128;

int64_t Elements(const ops::TensorRef& ref) { return ref.type.shape.elements(); }

unsigned Blocks(int64_t count) { return static_cast<unsigned>((count + kThreads - 1) / kThreads); }

template <typename Body>
__global__ void ForEach(int64_t count, Body body) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) body(i);
}

template <typename Body>
void Launch(const CudaContext& c, int64_t count, Body body) {
  if (count == 0) return;
  ForEach<<<Blocks(count), kThreads, 0, c.stream>>>(count, body);
  gpu::CheckLaunch("test op");
}

void Source(const CudaContext& c) {
  const int64_t seed = c.attributes.GetInt("seed");
  float* y = c.out<float>(0);
  Launch(c, Elements(c.outputs[0]), [=] __device__(int64_t i) {
    y[i] = static_cast<float>((i * 37 + seed * 101) % 257) / 128.0f - 1.0f;
  });
}

void Mix(const CudaContext& c) {
  const int64_t n = Elements(c.outputs[0]);
  float* sum = static_cast<float*>(c.workspace);
  Launch(c, n, [=] __device__(int64_t i) { sum[i] = 0; });
  for (size_t k = 0; k < c.inputs.size(); ++k) {
    const float* x = c.in<float>(k);
    const int64_t count = Elements(c.inputs[k]);
    const float weight = 0.5f + 0.25f * static_cast<float>(k % 3);
    Launch(c, n, [=] __device__(int64_t i) {
      for (int64_t j = i; j < count; j += n) sum[i] += weight * x[j];
    });
  }
  float* y = c.out<float>(0);
  Launch(c, n, [=] __device__(int64_t i) { y[i] = tanhf(sum[i]) + 0.01f; });
  if (float* aux = c.out<float>(1)) {
    Launch(c, 7, [=] __device__(int64_t i) { aux[i] = sum[i % n] * 0.125f + 0.5f; });
  }
}

void Unary(const CudaContext& c) {
  const float* x = c.in<float>(0);
  float* y = c.out<float>(0);
  Launch(c, Elements(c.outputs[0]), [=] __device__(int64_t i) { y[i] = 0.75f * x[i] + 0.125f; });
}

void UnaryGroup(std::span<const CudaContext> group) {
  for (const CudaContext& c : group) Unary(c);
}

void Binary(const CudaContext& c) {
  const float* a = c.in<float>(0);
  const float* b = c.in<float>(1);
  float* y = c.out<float>(0);
  Launch(c, Elements(c.outputs[0]),
         [=] __device__(int64_t i) { y[i] = 0.5f * a[i] - 0.25f * b[i] + 0.1f; });
}

void Update(const CudaContext& c) {
  const float* p = c.in<float>(0);
  const float* x = c.in<float>(1);
  const int64_t count = Elements(c.inputs[1]);
  float* out = c.out<float>(0);
  Launch(c, Elements(c.outputs[0]),
         [=] __device__(int64_t i) { out[i] = 0.875f * p[i] + 0.125f * x[i % count]; });
}

constexpr size_t kParts = 16;
struct Part {
  const float* p;
  const float* x;
  float* out;
  int64_t elements, count;
};
struct Parts {
  Part part[kParts];
};

// Runs a group in one launch: nodes that depend on one another would give wrong results.
void UpdateGroup(std::span<const CudaContext> group) {
  for (size_t first = 0; first < group.size(); first += kParts) {
    Parts parts{};
    const size_t here = std::min(kParts, group.size() - first);
    int64_t most = 0;
    for (size_t k = 0; k < here; ++k) {
      const CudaContext& c = group[first + k];
      parts.part[k] = {c.in<float>(0), c.in<float>(1), c.out<float>(0), Elements(c.outputs[0]),
                       Elements(c.inputs[1])};
      most = std::max(most, parts.part[k].elements);
    }
    Launch(group[0], most * static_cast<int64_t>(here), [=] __device__(int64_t i) {
      const Part& part = parts.part[i / most];
      const int64_t j = i % most;
      if (j < part.elements) part.out[j] = 0.875f * part.p[j] + 0.125f * part.x[j % part.count];
    });
  }
}

void Fail(const CudaContext&) { throw std::runtime_error("the kernel gives up"); }

void Lazy(const CudaContext& c) {
  float* y = c.out<float>(0);
  Launch(c, Elements(c.outputs[0]) - 16, [=] __device__(int64_t i) { y[i] = 0; });
}

void Stray(const CudaContext& c) {
  Unary(c);
  unsigned char* byte =
      c.out<unsigned char>(0) + c.outputs[0].type.bytes() + c.attributes.GetInt("beyond");
  Launch(c, 1, [=] __device__(int64_t) { *byte = static_cast<unsigned char>(~*byte); });
}

void Nan(const CudaContext& c) {
  Unary(c);
  float* y = c.out<float>(0);
  Launch(c, 1, [=] __device__(int64_t) { y[0] = nanf(""); });
}

__global__ void GateKernel(const volatile float* x, float* y) {
  while (*x == 1) {
  }
  *y = *x;
}

void Gate(const CudaContext& c) {
  GateKernel<<<1, 1, 0, c.stream>>>(c.in<float>(0), c.out<float>(0));
  gpu::CheckLaunch("test_gate");
}

const CudaKernelRegistration kGate({"test_gate", &Gate});
const CudaKernelRegistration kSource({"test_source", &Source});
const CudaKernelRegistration kMix({"test_mix", &Mix});
const CudaKernelRegistration kUnary({"test_unary", &Unary, nullptr, &UnaryGroup});
const CudaKernelRegistration kBinary({"test_binary", &Binary});
const CudaKernelRegistration kUpdate({"test_update", &Update, nullptr, &UpdateGroup});
const CudaKernelRegistration kFail({"test_fail", &Fail});
const CudaKernelRegistration kLazy({"test_lazy", &Lazy});
const CudaKernelRegistration kStray({"test_stray", &Stray});
const CudaKernelRegistration kNan({"test_nan", &Nan});

}  // namespace
}  // namespace plimsoll
