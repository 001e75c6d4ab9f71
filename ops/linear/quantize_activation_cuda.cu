// y = OF(a[, dy]) in registers, then codes = round(y · to_code), and the same transposed; sums of
// y's columns (ops/linear/quantize_activation.h).
//
// One kernel loads a and dy once and writes all results, in tiles (ops/cuda/quantize_tiles.cuh). A
// thread computes 8 rows of 8 columns of y. For SwiGLU's gradient it computes the same columns of
// dgate and dup, so that a tile is two tiles of y, half a row apart. Functions are those of the
// activations' own kernels (ops/cuda/activations.cuh), and y is rounded to its type: so the bits
// are the same.
//
// ops/cuda/expected_codes.cuh describes the first step, in which no magnitude is expected.
//
// Bytes for N results of 16 bits and both copies of their codes: gelu 4·N, its gradient 6·N; swiglu
// 6·N, its gradient 5·N; if `a` has codes 3, 5, 4 and 4·N. In the first step a and dy are read once
// more.
#include <cstdint>
#include <string>

#include "base/float8.h"
#include "gpu/check.h"
#include "ops/cuda/activations.cuh"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/expected_codes.cuh"
#include "ops/cuda/largest.cuh"
#include "ops/cuda/quantize_tiles.cuh"
#include "ops/cuda_kernel.h"
#include "ops/linear/quantize_activation.h"
#include "ops/linear/quantize_workspace.h"

namespace plimsoll::ops {
namespace {

using namespace cast_tiles;

// The operand `a` if it holds numbers.
template <typename T>
struct Numbers {
  using Element = T;
  using Loaded = Eight<T>;

  const T* at;

  template <bool kEven>
  __device__ Loaded Load(int64_t offset, int64_t count) const {
    return LoadSome<kEven>(at + offset, count);
  }
  static __device__ void Decode(const Loaded& loaded, float (&x)[kSide]) { ToFloats(loaded, x); }
};

// The operand `a` if it holds e4m3 codes, whose numbers are rounded to T.
template <typename T>
struct Coded {
  using Element = T;
  struct Loaded {
    uint2 codes;
    float scale;
  };

  const uint8_t* at;
  const float* scale;

  template <bool kEven>
  __device__ Loaded Load(int64_t offset, int64_t count) const {
    // Elements beyond the end are zeros, for any scale.
    return {LoadCodes<kEven>(at + offset, count), count > 0 ? __ldg(scale) : 0};
  }
  static __device__ void Decode(const Loaded& loaded, float (&x)[kSide]) {
    EightNumbers<Float8E4M3>(loaded.codes, loaded.scale, x);
    ToFloats(RoundPack<T, kSide>(x), x);
  }
};

// The base of all sources; kOperands is the number of tensors, or halves of tensors, that a source
// reads.
template <typename A, int kOperands, int kPartsOfY = 1>
struct Activation {
  using Element = typename A::Element;
  static constexpr int kParts = kPartsOfY;
  // A thread has six to eight loads of 16 bytes in flight.
  static constexpr int kRows = (kOperands == 3 ? 2 : 8 / kOperands) * 2 / sizeof(Element);
  static constexpr bool kFindsLargest = true;

  A a;
  const Element* dy;
};

template <typename Function, typename A>
struct Gelu : Activation<A, 1> {
  using T = typename A::Element;
  struct Loaded {
    typename A::Loaded x;
  };

  template <bool kEven>
  __device__ Loaded Load(int64_t row, int64_t column, int64_t width, int64_t count) const {
    return {this->a.template Load<kEven>(row * width + column, count)};
  }
  static __device__ void Make(const Loaded& loaded, Eight<T> (&made)[1]) {
    float x[kSide], y[kSide];
    A::Decode(loaded.x, x);
#pragma unroll
    for (int i = 0; i < kSide; ++i) y[i] = Function()(x[i]).value;
    made[0] = RoundPack<T, kSide>(y);
  }
};

template <typename Function, typename A>
struct GeluBackward : Activation<A, 2> {
  using T = typename A::Element;
  struct Loaded {
    typename A::Loaded x;
    Eight<T> dy;
  };

  template <bool kEven>
  __device__ Loaded Load(int64_t row, int64_t column, int64_t width, int64_t count) const {
    const int64_t at = row * width + column;
    return {this->a.template Load<kEven>(at, count), LoadSome<kEven>(this->dy + at, count)};
  }
  static __device__ void Make(const Loaded& loaded, Eight<T> (&made)[1]) {
    float x[kSide], dy[kSide], dx[kSide];
    A::Decode(loaded.x, x);
    ToFloats(loaded.dy, dy);
#pragma unroll
    for (int i = 0; i < kSide; ++i) dx[i] = __fmul_rn(dy[i], Function()(x[i]).slope);
    made[0] = RoundPack<T, kSide>(dx);
  }
};

template <typename A>
struct Swiglu : Activation<A, 2> {
  using T = typename A::Element;
  struct Loaded {
    typename A::Loaded gate, up;
  };

  template <bool kEven>
  __device__ Loaded Load(int64_t row, int64_t column, int64_t width, int64_t count) const {
    const int64_t gate = row * 2 * width + column;
    return {this->a.template Load<kEven>(gate, count),
            this->a.template Load<kEven>(gate + width, count)};
  }
  static __device__ void Make(const Loaded& loaded, Eight<T> (&made)[1]) {
    float gate[kSide], up[kSide], y[kSide];
    A::Decode(loaded.gate, gate);
    A::Decode(loaded.up, up);
#pragma unroll
    for (int i = 0; i < kSide; ++i) y[i] = __fmul_rn(SiluFunction()(gate[i]).value, up[i]);
    made[0] = RoundPack<T, kSide>(y);
  }
};

// The gradient of SwiGLU: dgate, then dup.
template <typename A>
struct SwigluBackward : Activation<A, 3, 2> {
  using T = typename A::Element;
  struct Loaded {
    typename A::Loaded gate, up;
    Eight<T> dy;
  };

  template <bool kEven>
  __device__ Loaded Load(int64_t row, int64_t column, int64_t width, int64_t count) const {
    const int64_t gate = row * 2 * width + column;
    return {this->a.template Load<kEven>(gate, count),
            this->a.template Load<kEven>(gate + width, count),
            LoadSome<kEven>(this->dy + row * width + column, count)};
  }
  static __device__ void Make(const Loaded& loaded, Eight<T> (&made)[2]) {
    float gate[kSide], up[kSide], dy[kSide], dgate[kSide], dup[kSide];
    A::Decode(loaded.gate, gate);
    A::Decode(loaded.up, up);
    ToFloats(loaded.dy, dy);
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      const ValueAndSlope silu = SiluFunction()(gate[i]);
      dgate[i] = __fmul_rn(__fmul_rn(dy[i], up[i]), silu.slope);
      dup[i] = __fmul_rn(dy[i], silu.value);
    }
    made[0] = RoundPack<T, kSide>(dgate);
    made[1] = RoundPack<T, kSide>(dup);
  }
};

// Used if no magnitude is expected: raises *largest to y's largest magnitude. Threads take 8
// columns of each part, grid-stride.
template <typename Source, bool kEven>
__global__ void __launch_bounds__(kThreads)
    FirstLargestKernel(const Source source, int64_t rows, int64_t width, const uint32_t* expected,
                       uint32_t* largest) {
  if (*expected != 0) return;
  __shared__ uint32_t shared[kWarps];
  const int64_t across = (width + kSide - 1) / kSide, n = rows * across;
  uint32_t here = 0;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n;
       i += int64_t{gridDim.x} * kThreads) {
    const int64_t row = i / across, column = (i - row * across) * kSide;
    Eight<typename Source::Element> made[Source::kParts];
    Source::Make(source.template Load<kEven>(row, column, width, width - column), made);
#pragma unroll
    for (int part = 0; part < Source::kParts; ++part) here = WithMagnitudes(here, made[part]);
  }
  AddLargest<kThreads>(here, shared, largest);
}

template <typename Source, typename Code>
void LaunchTiles(const CudaContext& ctx, const Source& source, const Cast& cast) {
  // Layers in 8 bits have 16-bit activations, so float32 has only the general form.
  constexpr bool kMayBeEven = sizeof(typename Source::Element) == 2;
  const int64_t width = cast.columns / Source::kParts;
  auto* first = &FirstLargestKernel<Source, false>;
  auto* kernel = &CastTilesKernel<Source, Code, true, true, false>;
  if constexpr (kMayBeEven) {
    if (width % kSide == 0) {
      first = &FirstLargestKernel<Source, true>;
      kernel = cast.partials == nullptr ? &CastTilesKernel<Source, Code, true, false, true>
                                        : &CastTilesKernel<Source, Code, true, true, true>;
    }
  }
  if (cast.codes != nullptr || cast.transposed != nullptr) {
    const int64_t blocks = (cast.rows * ((width + kSide - 1) / kSide) + kThreads - 1) / kThreads;
    first<<<FirstBlocks(ctx, blocks), kThreads, 0, ctx.stream>>>(source, cast.rows, width,
                                                                 cast.expected, FirstLargest(ctx));
    gpu::CheckLaunch("quantize_activation");
  }
  kernel<<<CastBlocks<Source>(cast), kThreads, 0, ctx.stream>>>(source, cast);
  gpu::CheckLaunch("quantize_activation");
}

// Calls body.template operator()<Source>() with the source that computes y's numbers.
template <typename A, typename Body>
void DispatchSource(const CudaContext& ctx, const Body& body) {
  const std::string& of = ctx.attributes.GetWord("of");
  if (of == "swiglu") return body.template operator()<Swiglu<A>>();
  if (of == "swiglu_backward") return body.template operator()<SwigluBackward<A>>();
  const bool tanh = ctx.attributes.GetWord("approximate") == "tanh";
  if (of == "gelu") {
    return tanh ? body.template operator()<Gelu<TanhGelu, A>>()
                : body.template operator()<Gelu<ExactGelu, A>>();
  }
  return tanh ? body.template operator()<GeluBackward<TanhGelu, A>>()
              : body.template operator()<GeluBackward<ExactGelu, A>>();
}

template <typename Code, typename A>
void Launch(const CudaContext& ctx, const A& a, const Cast& cast) {
  DispatchSource<A>(ctx, [&]<typename Source>() {
    LaunchTiles<Source, Code>(ctx, Source{{a, ctx.in<typename A::Element>(1)}}, cast);
  });
}

template <typename Code>
void Run(const CudaContext& ctx) {
  const graph::TensorType a = NumbersOfActivation(ctx.inputs[0].type, ctx.attributes);
  const graph::Shape y = QuantizedActivationType(ctx.attributes.GetWord("of"), a).shape;
  Cast cast = ExpectedCast(ctx, y, 3);
  if (ctx.has_output(3)) {
    cast.partials =
        reinterpret_cast<float*>(static_cast<char*>(ctx.workspace) + kLargestWordsBytes);
  }
  if (cast.rows > 0 && cast.columns > 0) {
    DispatchCuda(a.dtype, [&]<typename T>() {
      if constexpr (sizeof(T) == 2) {
        if (ctx.has_input(4)) {
          return Launch<Code>(ctx, Coded<T>{ctx.in<uint8_t>(0), ctx.in<float>(4)}, cast);
        }
      }
      Launch<Code>(ctx, Numbers<T>{ctx.in<T>(0)}, cast);
    });
  }
  FinishCast<Code>(ctx, cast, 4);
  if (ctx.has_output(3) && cast.columns > 0) {
    AddPartialSums(ctx.stream, cast.partials, QuantizeTiles(cast.rows), cast.columns,
                   ctx.in<float>(2), ctx.out<float>(3));
  }
}

void QuantizeActivation(const CudaContext& ctx) {
  if (graph::ParseDType(ctx.attributes.GetWord("dtype")) == graph::DType::kFloat8E4M3) {
    Run<Float8E4M3>(ctx);
  } else {
    Run<Float8E5M2>(ctx);
  }
}

const CudaKernelRegistration kQuantizeActivation({"quantize_activation", &QuantizeActivation});

}  // namespace
}  // namespace plimsoll::ops
