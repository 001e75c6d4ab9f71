// add, mul, scale, scale_by, cast, fill: one thread for a few packs of 16 bytes
// (ops/cuda/elementwise.cuh). Bytes: every argument once.
#include "base/low_precision.h"
#include "gpu/check.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda_kernel.h"
#include "ops/elementwise/arithmetic.h"

namespace plimsoll::ops {
namespace {

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

struct Product {
  __device__ float operator()(float a, float b) const { return a * b; }
};

struct ByFactor {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};

// A factor that is a scalar on the device.
template <typename Scalar>
struct ByScalar {
  const Scalar* factor;
  __device__ float operator()(float x) const { return x * ToFloat(*factor); }
};

struct Same {
  __device__ float operator()(float x) const { return x; }
};

struct Always {
  float value;
  __device__ float operator()() const { return value; }
};

// Adds integers without Map, which computes in float and so has too few bits.
__global__ void AddIntegersKernel(int64_t n, const uint32_t* a, const uint32_t* b, uint32_t* y) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a[i] + b[i];
}

void Add(const CudaContext& ctx) {
  if (ctx.dtype() != graph::DType::kInt32) return MapElements<2>(ctx, Sum());
  const int64_t n = ctx.in_shape(0).elements();
  if (n == 0) return;
  constexpr int kThreads = 256;
  AddIntegersKernel<<<static_cast<unsigned>((n + kThreads - 1) / kThreads), kThreads, 0,
                      ctx.stream>>>(n, ctx.in<uint32_t>(0), ctx.in<uint32_t>(1),
                                    ctx.out<uint32_t>(0));
  gpu::CheckLaunch("add");
}

void Scale(const CudaContext& ctx) {
  float factor = static_cast<float>(ctx.attributes.GetReal("factor"));
  if (HasRoundedFactor(ctx.attributes)) {
    if (ctx.dtype() == graph::DType::kBFloat16) factor = FromBf16(ToBf16(factor));
    if (ctx.dtype() == graph::DType::kFloat16) factor = FromF16(ToF16(factor));
  }
  MapElements<1>(ctx, ByFactor{factor});
}

void ScaleBy(const CudaContext& ctx) {
  DispatchCuda(ctx.inputs[1].type.dtype, [&]<typename Scalar>() {
    MapElements<1>(ctx, ByScalar<Scalar>{ctx.in<Scalar>(1)});
  });
}

// Calls body.template operator()<float, __nv_bfloat16, __half or int32_t>().
template <typename Body>
void DispatchWithIntegers(graph::DType dtype, Body&& body) {
  if (dtype == graph::DType::kInt32) return body.template operator()<int32_t>();
  DispatchCuda(dtype, body);
}

void Cast(const CudaContext& ctx) {
  const int64_t n = ctx.in_shape(0).elements();
  if (ctx.inputs[0].type.dtype == ctx.outputs[0].type.dtype) {
    gpu::Check(cudaMemcpyAsync(ctx.out<void>(0), ctx.in<void>(0), ctx.inputs[0].type.bytes(),
                               cudaMemcpyDeviceToDevice, ctx.stream),
               "cudaMemcpyAsync");
    return;
  }
  DispatchWithIntegers(ctx.inputs[0].type.dtype, [&]<typename From>() {
    DispatchWithIntegers(ctx.outputs[0].type.dtype, [&]<typename To>() {
      Map(ctx.stream, "cast", n, Same(), ctx.out<To>(0), ctx.in<From>(0));
    });
  });
}

void Fill(const CudaContext& ctx) {
  const float value = static_cast<float>(ctx.attributes.GetReal("value"));
  DispatchWithIntegers(ctx.outputs[0].type.dtype, [&]<typename S>() {
    Map(ctx.stream, "fill", ctx.out_shape(0).elements(), Always{value}, ctx.out<S>(0));
  });
}

const CudaKernelRegistration kAdd({"add", &Add});
const CudaKernelRegistration kMul = ElementwiseKernel<2, Product>("mul");
const CudaKernelRegistration kScale({"scale", &Scale});
const CudaKernelRegistration kScaleBy({"scale_by", &ScaleBy});
const CudaKernelRegistration kCast({"cast", &Cast});
const CudaKernelRegistration kFill({"fill", &Fill});

}  // namespace
}  // namespace plimsoll::ops
