// Kernels with one thread per element, in grid-stride loops.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "gpu/check.h"
#include "ops/cuda/mix_bits.cuh"
#include "runtime/cuda/cuda_fill.h"

namespace plimsoll::runtime {
namespace {

constexpr int kThreads = 256;

unsigned Blocks(int64_t count) {
  return static_cast<unsigned>(std::clamp<int64_t>((count + kThreads - 1) / kThreads, 1, 8192));
}

// Fills `data` with random signs, random mantissas of kMantissa bits, and random exponents among
// the seven below kEnd. kEnd is the exponent of the first power of two that is too large. For bf16
// and the upper halves of float32, kMantissa is 7 and kEnd 127 (which is 1); for fp16, 10 and 15;
// for e4m3, 3 and 8 (which is 2); for e5m2, 2 and 15.
template <typename Bits, int kMantissa, int kEnd>
__global__ void PlausibleKernel(Bits* data, int64_t count, uint64_t seed) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const uint64_t random = ops::MixBits(seed << 48 ^ static_cast<uint64_t>(i));
    const uint64_t exponent = kEnd - 7 + (random >> 8) % 7;
    const uint64_t mantissa = random >> 32 & ((1 << kMantissa) - 1);
    data[i] = static_cast<Bits>((random & 1) << (8 * sizeof(Bits) - 1) | exponent << kMantissa |
                                mantissa);
  }
}

__device__ inline unsigned char Pattern(int64_t offset, uint64_t run) {
  return static_cast<unsigned char>(
      (static_cast<uint64_t>(offset) + run * 0x51ED2701u) * 0x9E3779B97F4A7C15ull >> 56);
}

__global__ void FillPatternKernel(unsigned char* arena, int64_t begin, int64_t end, uint64_t run) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = begin + int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < end; i += stride) {
    arena[i] = Pattern(i, run);
  }
}

__global__ void FindChangedKernel(const unsigned char* arena, int64_t begin, int64_t end,
                                  uint64_t run, unsigned long long* first) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = begin + int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < end; i += stride) {
    if (arena[i] != Pattern(i, run)) {
      atomicMin(first, static_cast<unsigned long long>(i));
      return;  // later bytes of this thread have larger addresses
    }
  }
}

// Finds numbers that are not finite: those with all bits of the exponent set.
template <typename Bits>
__global__ void FindNotFiniteKernel(const Bits* data, int64_t count, Bits exponent, uint64_t tag,
                                    unsigned long long* first) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    if ((data[i] & exponent) == exponent) {
      atomicMin(first, static_cast<unsigned long long>(tag + static_cast<uint64_t>(i)));
      return;
    }
  }
}

}  // namespace

void FillPlausible(std::byte* data, int64_t bytes, graph::DType dtype, uint64_t seed,
                   cudaStream_t stream) {
  const auto fill = [&]<typename Bits, int kMantissa, int kEnd>() {
    const int64_t count = bytes / static_cast<int64_t>(sizeof(Bits));
    if (count == 0) return;
    PlausibleKernel<Bits, kMantissa, kEnd>
        <<<Blocks(count), kThreads, 0, stream>>>(reinterpret_cast<Bits*>(data), count, seed);
    gpu::CheckLaunch("FillPlausible");
  };
  switch (dtype) {
    case graph::DType::kFloat16:
      return fill.template operator()<uint16_t, 10, 15>();
    case graph::DType::kFloat8E4M3:
      return fill.template operator()<uint8_t, 3, 8>();
    case graph::DType::kFloat8E5M2:
      return fill.template operator()<uint8_t, 2, 15>();
    default:
      return fill.template operator()<uint16_t, 7, 127>();
  }
}

void FillOperands(const ops::KernelCall& call, cudaStream_t stream) {
  uint64_t seed = 0;
  for (const ops::TensorRef& input : call.inputs) {
    ++seed;
    const graph::DType dtype = input.type.dtype;
    if (input.data == nullptr || !(graph::IsFloat(dtype) || graph::IsFloat8(dtype))) continue;
    FillPlausible(static_cast<std::byte*>(input.data), input.type.bytes(), dtype, seed, stream);
  }
  if (call.inputs.empty()) return;
  // The workspace of a call on 8-bit codes gets bf16 numbers: it holds sums, not codes.
  const graph::DType first = call.inputs[0].type.dtype;
  FillPlausible(static_cast<std::byte*>(call.workspace), call.workspace_bytes,
                graph::IsFloat8(first) ? graph::DType::kBFloat16 : first, 0, stream);
}

void FillPattern(std::byte* arena, int64_t begin, int64_t end, uint64_t run, cudaStream_t stream) {
  if (end <= begin) return;
  FillPatternKernel<<<Blocks(end - begin), kThreads, 0, stream>>>(
      reinterpret_cast<unsigned char*>(arena), begin, end, run);
  gpu::CheckLaunch("FillPattern");
}

void FindChanged(const std::byte* arena, int64_t begin, int64_t end, uint64_t run,
                 unsigned long long* first, cudaStream_t stream) {
  if (end <= begin) return;
  FindChangedKernel<<<Blocks(end - begin), kThreads, 0, stream>>>(
      reinterpret_cast<const unsigned char*>(arena), begin, end, run, first);
  gpu::CheckLaunch("FindChanged");
}

void FindNotFinite(const std::byte* data, graph::DType dtype, int64_t count, uint64_t tag,
                   unsigned long long* first, cudaStream_t stream) {
  if (count == 0) return;
  const auto half = [&](uint16_t exponent) {
    FindNotFiniteKernel<uint16_t><<<Blocks(count), kThreads, 0, stream>>>(
        reinterpret_cast<const uint16_t*>(data), count, exponent, tag, first);
  };
  switch (dtype) {
    case graph::DType::kFloat32:
      FindNotFiniteKernel<uint32_t><<<Blocks(count), kThreads, 0, stream>>>(
          reinterpret_cast<const uint32_t*>(data), count, 0x7F800000u, tag, first);
      break;
    case graph::DType::kBFloat16:
      half(0x7F80);
      break;
    case graph::DType::kFloat16:
      half(0x7C00);
      break;
    default:
      return;
  }
  gpu::CheckLaunch("FindNotFinite");
}

}  // namespace plimsoll::runtime
