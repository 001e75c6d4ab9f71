// Formulas in ops/elementwise/activations_cpu.cc; a thread takes a few packs of 16 bytes
// (ops/cuda/elementwise.cuh). Bytes: forward 2·n·s, backward 3·n·s, gelu_with_backward 4·n·s.
// With the gradient of the bias, the threads of gelu_with_backward go down columns and sum the
// gradients that they store, in the order of ColumnSums; this adds only the bytes of partial sums.
//
// Products and sums of the gradients are intrinsics, so that no compiler fuses them differently.
#include <array>

#include "gpu/check.h"
#include "ops/cuda/activations.cuh"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/partial_sums.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

struct ReluValue {
  __device__ float operator()(float x) const { return x <= 0 ? 0.0f : x; }
};

struct ReluGradient {
  __device__ float operator()(float y, float dy) const { return y <= 0 ? 0.0f : dy; }
};

struct LeakyReluValue {
  float slope;
  __device__ float operator()(float x) const { return x > 0 ? x : slope * x; }
};

struct LeakyReluGradient {
  float slope;
  __device__ float operator()(float y, float dy) const { return y > 0 ? dy : slope * dy; }
};

template <int kInputs, typename Function>
void LeakyRelu(const CudaContext& ctx) {
  MapElements<kInputs>(ctx, Function{static_cast<float>(ctx.attributes.GetReal("slope"))});
}

struct SigmoidValue {
  __device__ float operator()(float x) const { return SigmoidOfLog2(__fmul_rn(x, kLog2E)); }
};

struct SigmoidGradient {
  __device__ float operator()(float y, float dy) const {
    return __fmul_rn(dy, __fmul_rn(y, __fsub_rn(1.0f, y)));
  }
};

// The library's function keeps the digits of a small x, which 2·σ(2x) − 1 would lose.
struct TanhValue {
  __device__ float operator()(float x) const { return tanhf(x); }
};

struct TanhGradient {
  __device__ float operator()(float y, float dy) const {
    return __fmul_rn(dy, __fmaf_rn(-y, y, 1.0f));
  }
};

struct SoftcapValue {
  float cap;
  __device__ float operator()(float x) const { return __fmul_rn(tanhf(__fdiv_rn(x, cap)), cap); }
};

struct SoftcapGradient {
  float cap;
  __device__ float operator()(float x, float dy) const {
    const float t = tanhf(__fdiv_rn(x, cap));
    return __fmul_rn(dy, __fmaf_rn(-t, t, 1.0f));
  }
};

template <int kInputs, typename Function>
void Softcap(const CudaContext& ctx) {
  MapElements<kInputs>(ctx, Function{static_cast<float>(ctx.attributes.GetReal("cap"))});
}

// The gradient of an activation whose function gives a value and a slope.
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

// Calls body.template operator()<TanhGelu or ExactGelu>().
template <typename Body>
void DispatchGelu(const CudaContext& ctx, const Body& body) {
  ctx.attributes.GetWord("approximate") == "tanh" ? body.template operator()<TanhGelu>()
                                                  : body.template operator()<ExactGelu>();
}

void Gelu(const CudaContext& ctx) {
  DispatchGelu(ctx, [&]<typename Function>() {
    if (!ctx.has_output(1)) return MapElements<1>(ctx, Value<Function>());
    DispatchCuda(ctx.dtype(), [&]<typename S>() {
      MapWithLargest(ctx.stream, "gelu", ctx.in_shape(0).elements(), Value<Function>(),
                     std::array{ctx.out<S>(0)}, {ctx.out<uint32_t>(1)}, ctx.in<S>(0));
    });
  });
}

void GeluBackward(const CudaContext& ctx) {
  DispatchGelu(ctx, [&]<typename Function>() {
    if (!ctx.has_output(1)) return MapElements<2>(ctx, Gradient<Function>());
    DispatchCuda(ctx.dtype(), [&]<typename S>() {
      MapWithLargest(ctx.stream, "gelu_backward", ctx.in_shape(0).elements(), Gradient<Function>(),
                     std::array{ctx.out<S>(0)}, {ctx.out<uint32_t>(1)}, ctx.in<S>(0), ctx.in<S>(1));
    });
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
  S* y;  // the activation's result; nullptr if not requested
  S* dx;
  int64_t rows, columns;
  int64_t chunk;  // number of rows that a block takes
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
  const bool largest = ctx.has_output(3) || ctx.has_output(4);
  DispatchGelu(ctx, [&]<typename Function>() {
    DispatchCuda(ctx.dtype(), [&]<typename S>() {
      if (largest) {
        MapWithLargest(ctx.stream, "gelu_with_backward", n, ValueAndGradient<Function>(),
                       std::array{ctx.out<S>(0), ctx.out<S>(1)},
                       {ctx.out<uint32_t>(3), ctx.out<uint32_t>(4)}, ctx.in<S>(0), ctx.in<S>(1));
        if (!ctx.has_output(2)) return;
        const graph::Shape& shape = ctx.in_shape(0);
        ColumnSums(ctx.stream, ctx.dtype(), ctx.out<S>(1), shape.rows(), shape.dim(-1),
                   ctx.in<float>(2), ctx.out<float>(2), ctx.workspace);
      } else if (ctx.has_output(2)) {
        RunWithBias<Function, S>(ctx);
      } else if (ctx.has_output(0)) {
        Map(ctx.stream, "gelu_with_backward", n, ValueAndGradient<Function>(),
            std::array{ctx.out<S>(0), ctx.out<S>(1)}, ctx.in<S>(0), ctx.in<S>(1));
      } else {
        Map(ctx.stream, "gelu_with_backward", n, Gradient<Function>(), ctx.out<S>(1), ctx.in<S>(0),
            ctx.in<S>(1));
      }
    });
  });
}

const CudaKernelRegistration kKernels[] = {
    ElementwiseKernel<1, ReluValue>("relu"),
    ElementwiseKernel<2, ReluGradient>("relu_backward"),
    CudaKernelRegistration({"leaky_relu", &LeakyRelu<1, LeakyReluValue>}),
    CudaKernelRegistration({"leaky_relu_backward", &LeakyRelu<2, LeakyReluGradient>}),
    ElementwiseKernel<1, SigmoidValue>("sigmoid"),
    ElementwiseKernel<2, SigmoidGradient>("sigmoid_backward"),
    ElementwiseKernel<1, TanhValue>("tanh"),
    ElementwiseKernel<2, TanhGradient>("tanh_backward"),
    CudaKernelRegistration({"softcap", &Softcap<1, SoftcapValue>}),
    CudaKernelRegistration({"softcap_backward", &Softcap<2, SoftcapGradient>}),
    ElementwiseKernel<1, Value<SiluFunction>>("silu"),
    ElementwiseKernel<2, Gradient<SiluFunction>>("silu_backward"),
    CudaKernelRegistration({"gelu", &Gelu}),
    CudaKernelRegistration({"gelu_backward", &GeluBackward}),
    CudaKernelRegistration({"gelu_with_backward", &GeluWithBackward}),
};

}  // namespace
}  // namespace plimsoll::ops
