// x = code · scale (ops/linear/quantize.h).
//
// Threads take 16 codes, whose numbers are two packs of 16 bytes, grid-stride; the last threads
// take the remaining codes one by one. Bytes: codes once, x once.
#include <algorithm>

#include "base/float8.h"
#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/float8_codes.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 16;  // number of blocks for each multiprocessor
constexpr int kSide = 8;

template <typename Code, typename T>
__device__ Pack<T, kSide> Decode(uint2 codes, float scale) {
  float numbers[kSide];
  EightNumbers<Code>(codes, scale, numbers);
  return RoundPack<T, kSide>(numbers);
}

template <typename Code, typename T>
__global__ void __launch_bounds__(kThreads)
    DequantizeKernel(const uint8_t* codes, const float* scale, int64_t n, T* x) {
  const float factor = *scale;
  const int64_t sixteens = n / (2 * kSide);
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < sixteens;
       i += int64_t{gridDim.x} * kThreads) {
    const uint4 some = reinterpret_cast<const uint4*>(codes)[i];
    T* const to = x + i * 2 * kSide;
    WriteGlobal(to, Decode<Code, T>({some.x, some.y}, factor));
    WriteGlobal(to + kSide, Decode<Code, T>({some.z, some.w}, factor));
  }
  const int64_t rest = sixteens * 2 * kSide + threadIdx.x;
  if (blockIdx.x == 0 && rest < n) {
    x[rest] = Decode<Code, T>({codes[rest], 0}, factor).values[0];
  }
}

template <typename Code, typename T>
void Launch(const CudaContext& ctx) {
  const int64_t n = ctx.in_shape(0).elements(), of_block = int64_t{kThreads} * 2 * kSide;
  const int64_t blocks = std::clamp<int64_t>((n + of_block - 1) / of_block, 1,
                                             int64_t{ctx.libraries.multiprocessors()} * kBlocks);
  DequantizeKernel<Code, T><<<static_cast<unsigned>(blocks), kThreads, 0, ctx.stream>>>(
      ctx.in<uint8_t>(0), ctx.in<float>(1), n, ctx.out<T>(0));
  gpu::CheckLaunch("dequantize");
}

void Dequantize(const CudaContext& ctx) {
  const bool e4m3 = ctx.inputs[0].type.dtype == graph::DType::kFloat8E4M3;
  if (ctx.outputs[0].type.dtype == graph::DType::kBFloat16) {
    e4m3 ? Launch<Float8E4M3, __nv_bfloat16>(ctx) : Launch<Float8E5M2, __nv_bfloat16>(ctx);
  } else {
    e4m3 ? Launch<Float8E4M3, __half>(ctx) : Launch<Float8E5M2, __half>(ctx);
  }
}

const CudaKernelRegistration kDequantize({"dequantize", &Dequantize});

}  // namespace
}  // namespace plimsoll::ops
