// Copies one x after another, and clears the bytes between them. A block of 256 threads fills 16
// KiB of y for one x, 16 bytes per thread at a time. A launch handles up to 800 tensors, and finds
// them in a table in the kernel's parameter. Bytes: y twice. Scalars are stacked by one thread
// each.
#include <cstddef>
#include <cstring>

#include "gpu/check.h"
#include "ops/cuda/launch_table.cuh"
#include "ops/cuda_kernel.h"
#include "ops/data_movement/pack.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlockBytes = 16 << 10;
constexpr int kMostPieces = 800;

struct Piece {
  const std::byte* from;
  std::byte* to;
  int64_t bytes;   // bytes of x
  int64_t filled;  // bytes of y, a multiple of 16
  int first_block;
};

// The table takes nearly all of the 32,764 bytes that a kernel's parameters may have.
struct Pieces {
  Piece pieces[kMostPieces];
  int count = 0;
};

__global__ void __launch_bounds__(kThreads) PackKernel(const __grid_constant__ Pieces all) {
  const Piece& piece = EntryOf(all.pieces, all.count, static_cast<int>(blockIdx.x));
  const int64_t first = (static_cast<int>(blockIdx.x) - piece.first_block) * kBlockBytes;
  const int64_t end = min(first + kBlockBytes, piece.filled);
  for (int64_t at = first + threadIdx.x * 16; at < end; at += kThreads * 16) {
    uint4 word = {};
    if (at + 16 <= piece.bytes) {
      word = *reinterpret_cast<const uint4*>(piece.from + at);
    } else if (at < piece.bytes) {
      memcpy(&word, piece.from + at, static_cast<size_t>(piece.bytes - at));
    }
    *reinterpret_cast<uint4*>(piece.to + at) = word;
  }
}

void PackTensors(const CudaContext& ctx) {
  const int64_t size = graph::ByteSize(ctx.dtype());
  std::byte* to = ctx.out<std::byte>(0);
  for (size_t i = 0; i < ctx.inputs.size();) {
    Pieces all;
    int blocks = 0;
    for (; i < ctx.inputs.size() && all.count < kMostPieces; ++i) {
      const graph::TensorType& type = ctx.inputs[i].type;
      const int64_t filled = PackedElements(type.shape.elements()) * size;
      if (filled == 0) continue;
      all.pieces[all.count++] = {ctx.in<std::byte>(i), to, type.bytes(), filled, blocks};
      to += filled;
      blocks += static_cast<int>((filled + kBlockBytes - 1) / kBlockBytes);
    }
    if (blocks == 0) continue;
    PackKernel<<<blocks, kThreads, 0, ctx.stream>>>(all);
    gpu::CheckLaunch("pack");
  }
}

constexpr int kMostScalars = 4000;
template <typename T>
struct Scalars {
  const T* each[kMostScalars];
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    StackKernel(const __grid_constant__ Scalars<T> scalars, int count, T* y) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i < count) y[i] = *scalars.each[i];
}

template <typename T>
void StackAs(const CudaContext& ctx) {
  for (size_t first = 0; first < ctx.inputs.size(); first += kMostScalars) {
    Scalars<T> scalars;
    int count = 0;
    for (size_t i = first; i < ctx.inputs.size() && count < kMostScalars; ++i) {
      scalars.each[count++] = ctx.in<T>(i);
    }
    StackKernel<<<(count + kThreads - 1) / kThreads, kThreads, 0, ctx.stream>>>(
        scalars, count, ctx.out<T>(0) + first);
    gpu::CheckLaunch("stack");
  }
}

void Stack(const CudaContext& ctx) {
  ctx.dtype() == graph::DType::kFloat64 ? StackAs<double>(ctx) : StackAs<float>(ctx);
}

const CudaKernelRegistration kPack({"pack", &PackTensors});
const CudaKernelRegistration kStack({"stack", &Stack});

}  // namespace
}  // namespace plimsoll::ops
