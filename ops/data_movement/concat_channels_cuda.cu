// Formulas in ops/data_movement/concat_channels_cpu.cc. A thread moves 16 bytes of a row of y or dy
// if the channels of both parts consist of such packs, otherwise one element. Bytes: every argument
// once; of dy only the requested parts.
#include "ops/cuda/pool_packs.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;

// A pack of a row that consists of two parts. Rows and packs are counted in 32 bits (ForImages).
struct RowPack {
  uint32_t row, column;
  bool in_a;

  __device__ RowPack(uint32_t pack, uint32_t of_a, uint32_t of_b)
      : row(pack / (of_a + of_b)), column(pack - row * (of_a + of_b)), in_a(column < of_a) {
    if (!in_a) column -= of_a;
  }
  // The index of the pack in its part.
  __device__ int64_t At(uint32_t of_a, uint32_t of_b) const {
    return int64_t{row} * (in_a ? of_a : of_b) + column;
  }
};

// `of_a`, `of_b`: the number of packs in a row of each part.
template <int N, typename T>
__global__ void __launch_bounds__(kThreads)
    ConcatKernel(const T* a, const T* b, uint32_t of_a, uint32_t of_b, uint32_t packs, T* y) {
  const uint32_t pack = blockIdx.x * kThreads + threadIdx.x;
  if (pack >= packs) return;
  const RowPack at(pack, of_a, of_b);
  const T* from = (at.in_a ? a : b) + at.At(of_a, of_b) * N;
  WriteGlobal(y + int64_t{pack} * N, *reinterpret_cast<const Pack<T, N>*>(from));
}

// acc and out may be the same memory.
template <int N, typename T>
__global__ void __launch_bounds__(kThreads)
    ConcatBackwardKernel(const T* dy, const T* acc_a, const T* acc_b, uint32_t of_a, uint32_t of_b,
                         uint32_t packs, T* da, T* db) {
  const uint32_t pack = blockIdx.x * kThreads + threadIdx.x;
  if (pack >= packs) return;
  const RowPack at(pack, of_a, of_b);
  T* const out = at.in_a ? da : db;
  if (out == nullptr) return;
  const T* const acc = at.in_a ? acc_a : acc_b;
  const int64_t element = at.At(of_a, of_b) * N;
  float values[N];
  LoadPack<N>(dy + int64_t{pack} * N, values);
  if (acc != nullptr) {
    float sums[N];
    LoadPack<N>(acc + element, sums);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] += sums[i];
  }
  StoreGlobal(out + element, values);
}

template <typename T>
T* Row(T* data, int64_t row, int64_t channels) {
  return data == nullptr ? nullptr : data + row * channels;
}

// Calls launch.operator()<N>(first row, packs, blocks) for as many rows at a time that 32 bits can
// count their packs; a pack has N elements.
template <typename T, typename Launch>
void ForRowPacks(bool aligned, int64_t rows, int64_t of_a, int64_t of_b, const Launch& launch) {
  const auto with = [&]<int N>() {
    const int64_t per_row = (of_a + of_b) / N;
    ForImages(rows, per_row, [&](int64_t first, int64_t count) {
      const auto packs = static_cast<uint32_t>(count * per_row);
      launch.template operator()<N>(first, packs, (packs + kThreads - 1) / kThreads);
    });
  };
  constexpr int kPack = kPackSize<T>;
  if (aligned && of_a % kPack == 0 && of_b % kPack == 0) {
    with.template operator()<kPack>();
  } else {
    with.template operator()<1>();
  }
}

void ConcatChannels(const CudaContext& ctx) {
  const int64_t of_a = ctx.in_shape(0).dim(-1), of_b = ctx.in_shape(1).dim(-1);
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const T *const a = ctx.in<T>(0), *const b = ctx.in<T>(1);
    T* const y = ctx.out<T>(0);
    ForRowPacks<T>(Aligned(a, b, y), ctx.out_shape(0).rows(), of_a, of_b,
                   [&]<int N>(int64_t row, uint32_t packs, unsigned blocks) {
                     ConcatKernel<N><<<blocks, kThreads, 0, ctx.stream>>>(
                         Row(a, row, of_a), Row(b, row, of_b), static_cast<uint32_t>(of_a / N),
                         static_cast<uint32_t>(of_b / N), packs, Row(y, row, of_a + of_b));
                     gpu::CheckLaunch("concat_channels");
                   });
  });
}

void ConcatChannelsBackward(const CudaContext& ctx) {
  const int64_t of_a = ctx.attributes.GetInt("first_channels");
  const int64_t of_b = ctx.in_shape(0).dim(-1) - of_a;
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const T *const dy = ctx.in<T>(0), *const acc_a = ctx.in<T>(1), *const acc_b = ctx.in<T>(2);
    T *const da = ctx.out<T>(0), *const db = ctx.out<T>(1);
    ForRowPacks<T>(Aligned(dy, acc_a, acc_b, da, db), ctx.in_shape(0).rows(), of_a, of_b,
                   [&]<int N>(int64_t row, uint32_t packs, unsigned blocks) {
                     ConcatBackwardKernel<N><<<blocks, kThreads, 0, ctx.stream>>>(
                         Row(dy, row, of_a + of_b), Row(acc_a, row, of_a), Row(acc_b, row, of_b),
                         static_cast<uint32_t>(of_a / N), static_cast<uint32_t>(of_b / N), packs,
                         Row(da, row, of_a), Row(db, row, of_b));
                     gpu::CheckLaunch("concat_channels_backward");
                   });
  });
}

const CudaKernelRegistration kConcatChannels({"concat_channels", &ConcatChannels});
const CudaKernelRegistration kConcatChannelsBackward({"concat_channels_backward",
                                                      &ConcatChannelsBackward});

}  // namespace
}  // namespace plimsoll::ops
