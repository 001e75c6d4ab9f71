// Formulas in ops/elementwise/gelu_cpu.cc; a thread takes a few packs of 16 bytes
// (ops/cuda/elementwise.cuh). Bytes: gelu 2·n·s, gelu_backward 3·n·s, gelu_with_backward 4·n·s.
// With the gradient of the bias, the threads of gelu_with_backward go down columns and sum what
// they store, in the order of ColumnSums, which adds no bytes but the partial sums.
#include <array>

#include "gpu/check.h"
#include "ops/cuda/activations.cuh"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/partial_sums.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

template <typename Function>
struct Value {
  __device__ float operator()(float x) const { return Function()(x).value; }
};

template <typename Function>
struct Gradient {
  __device__ float operator()(float x, float dy) const {
    return __fmul_rn(dy, Function()(x).slope);
  }
};

// Calls body.template operator()<S, TanhGelu or ExactGelu>().
template <typename Body>
void Dispatch(const CudaContext& ctx, Body&& body) {
  const bool tanh = ctx.attributes.GetWord("approximate") == "tanh";
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    if (tanh) {
      body.template operator()<S, TanhGelu>();
    } else {
      body.template operator()<S, ExactGelu>();
    }
  });
}

void Gelu(const CudaContext& ctx) {
  Dispatch(ctx, [&]<typename S, typename Function>() {
    Map(ctx.stream, "gelu", ctx.in_shape(0).elements(), Value<Function>(), ctx.out<S>(0),
        ctx.in<S>(0));
  });
}

void GeluBackward(const CudaContext& ctx) {
  Dispatch(ctx, [&]<typename S, typename Function>() {
    Map(ctx.stream, "gelu_backward", ctx.in_shape(0).elements(), Gradient<Function>(),
        ctx.out<S>(0), ctx.in<S>(0), ctx.in<S>(1));
  });
}

template <typename Function>
struct ValueAndGradient {
  __device__ Results<2> operator()(float x, float dy) const {
    const ValueAndSlope both = Function()(x);
    return {{both.value, __fmul_rn(dy, both.slope)}};
  }
};

template <typename S>
struct ColumnArguments {
  const S *x, *dy;
  S* y;  // nullptr: not wanted
  S* dx;
  int64_t rows, columns;
  int64_t chunk;  // of rows that a block takes
};

// partial_sums.cuh says which rows and columns a thread takes.
template <int N, int kLanes, bool kValue, typename Function, typename S>
__global__ void __launch_bounds__(kSumThreads, kSumBlocks)
    ColumnsKernel(const ColumnArguments<S> args, float* partials) {
  constexpr int kStep = kSumThreads / kLanes;
  const int64_t column = (int64_t{blockIdx.x} * kLanes + threadIdx.x % kLanes) * N;
  const int64_t end = min((int64_t{blockIdx.y} + 1) * args.chunk, args.rows);
  float sums[N] = {};
  if (column < args.columns) {
    int64_t row = int64_t{blockIdx.y} * args.chunk + threadIdx.x / kLanes;
#pragma unroll 1
    for (; row < end; row += kStep) {
      const int64_t at = row * args.columns + column;
      float x[N], dy[N], y[N], dx[N], stored[N];
      LoadPack<N>(args.x + at, x);
      LoadPack<N>(args.dy + at, dy);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const Results<2> both = ValueAndGradient<Function>()(x[i], dy[i]);
        y[i] = both.values[0];
        dx[i] = both.values[1];
      }
      if constexpr (kValue) StoreGlobal(args.y + at, y);
      const Pack<S, N> rounded = RoundPack<S, N>(dx);
      WriteGlobal(args.dx + at, rounded);
      ToFloats(rounded, stored);
#pragma unroll
      for (int i = 0; i < N; ++i) sums[i] += stored[i];
    }
  }
  StorePartialSums<N, kLanes>(sums, args.columns, partials);
}

template <typename Function, typename S>
void RunWithBias(const CudaContext& ctx) {
  const graph::Shape& shape = ctx.in_shape(0);
  const int64_t rows = shape.rows(), columns = shape.dim(-1);
  if (columns == 0) return;
  const ColumnArguments<S> args{ctx.in<S>(0),
                                ctx.in<S>(1),
                                ctx.out<S>(0),
                                ctx.out<S>(1),
                                rows,
                                columns,
                                ColumnSumsChunk(rows, columns)};
  const int64_t chunks = (rows + args.chunk - 1) / args.chunk;
  auto* const partials = static_cast<float*>(ctx.workspace);
  const auto launch = [&](auto* kernel, int columns_of_block) {
    const dim3 grid(static_cast<unsigned>((columns + columns_of_block - 1) / columns_of_block),
                    static_cast<unsigned>(chunks));
    kernel<<<grid, kSumThreads, 0, ctx.stream>>>(args, partials);
    gpu::CheckLaunch("gelu_with_backward");
  };
  constexpr int N = kPackSize<S>;
  const bool aligned = columns % N == 0 && IsAligned(args.x, 16) && IsAligned(args.dy, 16) &&
                       IsAligned(args.y, 16) && IsAligned(args.dx, 16);
  if (chunks == 0) {
    // Without rows, the sums below are acc, or zero.
  } else if (aligned && args.y != nullptr) {
    launch(&ColumnsKernel<N, kSumLanes, true, Function, S>, kSumLanes * N);
  } else if (aligned) {
    launch(&ColumnsKernel<N, kSumLanes, false, Function, S>, kSumLanes * N);
  } else if (args.y != nullptr) {
    launch(&ColumnsKernel<1, kSumLanesSingle, true, Function, S>, kSumLanesSingle);
  } else {
    launch(&ColumnsKernel<1, kSumLanesSingle, false, Function, S>, kSumLanesSingle);
  }
  AddPartialSums(ctx.stream, partials, chunks, columns, ctx.in<float>(2), ctx.out<float>(2));
}

void GeluWithBackward(const CudaContext& ctx) {
  const int64_t n = ctx.in_shape(0).elements();
  Dispatch(ctx, [&]<typename S, typename Function>() {
    if (ctx.has_output(2)) {
      RunWithBias<Function, S>(ctx);
    } else if (ctx.has_output(0)) {
      Map(ctx.stream, "gelu_with_backward", n, ValueAndGradient<Function>(),
          std::array{ctx.out<S>(0), ctx.out<S>(1)}, ctx.in<S>(0), ctx.in<S>(1));
    } else {
      Map(ctx.stream, "gelu_with_backward", n, Gradient<Function>(), ctx.out<S>(1), ctx.in<S>(0),
          ctx.in<S>(1));
    }
  });
}

const CudaKernelRegistration kGelu({"gelu", &Gelu});
const CudaKernelRegistration kGeluBackward({"gelu_backward", &GeluBackward});
const CudaKernelRegistration kGeluWithBackward({"gelu_with_backward", &GeluWithBackward});

}  // namespace
}  // namespace plimsoll::ops
