// Formulas in ops/convolution/conv.h. If every output pixel depends on one input pixel, they are
// the matrix products of ops/linear/linear_cuda.h or of ops/convolution/conv_kernels_cuda.h.
// Otherwise cuDNN convolves (ops/cuda/cudnn_convolution.h), by the plan that was measured to be the
// fastest. Separate kernels then add a bias, add acc, or widen dweight, which cuDNN sums in float32
// and rounds once to the type of x. dbias is a column sum of dy. A transposed convolution is dx of
// x, plus bias.
//
// Some transposed convolutions are matrix products (ops/convolution/conv_kernels_cuda.h). So is dx,
// if cuDNN has no engine for it or, in strict float32 with strides, no fast one.
//
// In all other cases, and if a tensor does not begin at a multiple of 16 bytes, plain kernels
// replace cuDNN: one thread for each element of y and dx; one block for each element of dweight,
// whose threads share the pixels. They read every operand of every product from memory, and are
// slow.
//
// Bytes: every argument once; with bias, acc or 16-bit dweight the result once more.
#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"
#include "ops/convolution/conv_geometry.h"
#include "ops/convolution/conv_kernels_cuda.h"
#include "ops/convolution/conv_workspace.h"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/cudnn_convolution_choice.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/products/gemm.h"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"
#include "ops/definition.h"
#include "ops/linear/linear_cuda.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 128;

unsigned BlocksFor(int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

// Replaces std::array, which has no device functions.
struct DeviceGeometry {
  int64_t batch, in_channels, out_channels, group_in, group_out, taps, rows_out;
  int64_t in[3], kernel[3], out[3], stride[3], pad[3], dilation[3];

  explicit DeviceGeometry(const ConvGeometry& g)
      : batch(g.batch),
        in_channels(g.in_channels),
        out_channels(g.out_channels),
        group_in(g.group_in()),
        group_out(g.group_out()),
        taps(g.taps()),
        rows_out(g.rows_out()) {
    for (int i = 0; i < 3; ++i) {
      in[i] = g.in[i];
      kernel[i] = g.kernel[i];
      out[i] = g.out[i];
      stride[i] = g.stride[i];
      pad[i] = g.pad[i];
      dilation[i] = g.dilation[i];
    }
  }
};

struct DevicePixel {
  int64_t image, at[3];
};

__device__ DevicePixel PixelOf(int64_t index, const int64_t (&extent)[3]) {
  DevicePixel pixel;
#pragma unroll
  for (int i = 2; i >= 0; --i) {
    pixel.at[i] = index % extent[i];
    index /= extent[i];
  }
  pixel.image = index;
  return pixel;
}

// The pixel of x that output pixel `y` reads at a tap; -1: no pixel.
__device__ int64_t InputOf(const DeviceGeometry& g, const DevicePixel& y, const DevicePixel& tap) {
  int64_t row = y.image;
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const int64_t p = y.at[i] * g.stride[i] - g.pad[i] + tap.at[i] * g.dilation[i];
    if (p < 0 || p >= g.in[i]) return -1;
    row = row * g.in[i] + p;
  }
  return row;
}

// The pixel of y that reads input pixel `x` at a tap; -1: no pixel.
__device__ int64_t OutputOf(const DeviceGeometry& g, const DevicePixel& x, const DevicePixel& tap) {
  int64_t row = x.image;
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const int64_t distance = x.at[i] + g.pad[i] - tap.at[i] * g.dilation[i];
    if (distance < 0 || distance % g.stride[i] != 0) return -1;
    const int64_t p = distance / g.stride[i];
    if (p >= g.out[i]) return -1;
    row = row * g.out[i] + p;
  }
  return row;
}

template <typename S>
__global__ void __launch_bounds__(kThreads)
    ConvKernel(DeviceGeometry g, const S* x, const S* weight, S* y) {
  const int64_t n = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (n >= g.rows_out * g.out_channels) return;
  const int64_t o = n % g.out_channels;
  const DevicePixel pixel = PixelOf(n / g.out_channels, g.out);
  float sum = 0;
  for (int64_t tap = 0; tap < g.taps; ++tap) {
    const int64_t row = InputOf(g, pixel, PixelOf(tap, g.kernel));
    if (row < 0) continue;
    const S* const from = x + row * g.in_channels + o / g.group_out * g.group_in;
    const S* const by = weight + (o * g.taps + tap) * g.group_in;
    for (int64_t i = 0; i < g.group_in; ++i) sum += ToFloat(from[i]) * ToFloat(by[i]);
  }
  y[n] = FromFloat<S>(sum);
}

template <typename S>
__global__ void __launch_bounds__(kThreads)
    ConvDxKernel(DeviceGeometry g, int64_t elements, const S* dy, const S* weight, S* dx) {
  const int64_t n = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (n >= elements) return;
  const int64_t channel = n % g.in_channels, i = channel % g.group_in;
  const int64_t first = channel / g.group_in * g.group_out;  // first output channel of the group
  const DevicePixel pixel = PixelOf(n / g.in_channels, g.in);
  float sum = 0;
  for (int64_t tap = 0; tap < g.taps; ++tap) {
    const int64_t row = OutputOf(g, pixel, PixelOf(tap, g.kernel));
    if (row < 0) continue;
    for (int64_t o = first; o < first + g.group_out; ++o) {
      sum += ToFloat(dy[row * g.out_channels + o]) *
             ToFloat(weight[(o * g.taps + tap) * g.group_in + i]);
    }
  }
  dx[n] = FromFloat<S>(sum);
}

template <typename S>
__global__ void __launch_bounds__(kThreads)
    ConvDwKernel(DeviceGeometry g, const S* x, const S* dy, S* dweight) {
  __shared__ float shared[kThreads / kWarp];
  const int64_t n = blockIdx.x, i = n % g.group_in;
  const int64_t o = n / (g.taps * g.group_in);
  const DevicePixel tap = PixelOf(n / g.group_in % g.taps, g.kernel);
  const int64_t channel = o / g.group_out * g.group_in + i;
  float sum = 0;
  for (int64_t row = threadIdx.x; row < g.rows_out; row += kThreads) {
    const int64_t from = InputOf(g, PixelOf(row, g.out), tap);
    if (from < 0) continue;
    sum += ToFloat(dy[row * g.out_channels + o]) * ToFloat(x[from * g.in_channels + channel]);
  }
  sum = BlockSum<kThreads>(sum, shared);
  if (threadIdx.x == 0) dweight[n] = FromFloat<S>(sum);
}

template <typename S>
__global__ void __launch_bounds__(kThreads)
    AddBiasKernel(int64_t elements, int64_t channels, const S* bias, S* y) {
  const int64_t n = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (n < elements) y[n] = FromFloat<S>(ToFloat(y[n]) + ToFloat(bias[n % channels]));
}

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Same {
  __device__ float operator()(float a) const { return a; }
};

// One of the three products: y, dx or dweight.
struct Product {
  ConvProblem problem;  // its workspace is the first part of the call's workspace
  const void *a, *b;
  void* result;
  bool staged = false;  // the result is in the workspace; it is then added or widened
};

Product ProductOf(const CudaContext& ctx, ConvPass pass, const ConvGeometry& geometry) {
  return {{.pass = pass,
           .dtype = ctx.dtype(),
           .tf32 = UsesTf32(ctx.attributes, ctx.dtype()),
           .geometry = geometry,
           .workspace_limit = ctx.workspace_bytes},
          ctx.in<void>(0),
          ctx.in<void>(1),
          ctx.out<void>(0)};
}

// Places the product's result at the end of the workspace.
void Stage(const CudaContext& ctx, const graph::TensorType& type, Product& product) {
  product.staged = true;
  product.problem.workspace_limit -= StagedGradientBytes(type);
  product.result = static_cast<char*>(ctx.workspace) + product.problem.workspace_limit;
}

// Whether cuDNN supports tensors at these addresses.
bool IsForCudnn(const Product& product) {
  return IsAligned(product.a, 16) && IsAligned(product.b, 16) && IsAligned(product.result, 16);
}

ConvBuffers BuffersOf(const CudaContext& ctx, const Product& product) {
  return {.a = product.a, .b = product.b, .result = product.result, .workspace = ctx.workspace};
}

// The tiles that compute dx without cuDNN; nullopt: tiles cannot compute it.
std::optional<ConvTiles> TilesOf(const CudaContext& ctx, const Product& product) {
  const ConvProblem& problem = product.problem;
  if (problem.pass != ConvPass::kDx || !IsForCudnn(product)) return std::nullopt;
  return OverlappingTiles(ctx, problem.geometry, product.result, problem.workspace_limit);
}

// Whether tiles are used without asking cuDNN. For strict float32 with strides, all engines of
// cuDNN are a hundred times slower than tiles.
bool PrefersTiles(const Product& product) {
  const ConvProblem& problem = product.problem;
  return problem.pass == ConvPass::kDx && problem.dtype == graph::DType::kFloat32 &&
         !problem.tf32 && Volume(problem.geometry.stride) > 1;
}

void Prepare(const CudaContext& ctx, const Product& product) {
  if (!IsForCudnn(product)) return;
  const auto tiles = TilesOf(ctx, product);
  if (!(tiles && PrefersTiles(product))) {
    ChooseConvolution(product.problem, ctx.libraries, ctx.stream, BuffersOf(ctx, product));
    if (FindConvolution(product.problem, ctx.libraries) != nullptr) return;
  }
  if (tiles) PrepareTiles(ctx, *tiles);
}

// Returns false when cuDNN has no engine for the product.
bool RunByCudnn(const CudaContext& ctx, const Product& product) {
  if (!IsForCudnn(product)) return false;
  const ChosenConvolution* const chosen = FindConvolution(product.problem, ctx.libraries);
  if (chosen == nullptr) return false;
  const std::string problem =
      chosen->convolution->Run(chosen->plan, ctx.libraries, ctx.stream, BuffersOf(ctx, product));
  if (!problem.empty()) throw InternalError("convolution by " + chosen->name() + ": " + problem);
  return true;
}

void Run(const CudaContext& ctx, const Product& product) {
  const auto tiles = TilesOf(ctx, product);
  if (!(tiles && PrefersTiles(product)) && RunByCudnn(ctx, product)) return;
  if (tiles) return RunTiles(ctx, *tiles);
  const DeviceGeometry g(product.problem.geometry);
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    const auto *a = static_cast<const S*>(product.a), *b = static_cast<const S*>(product.b);
    S* const result = static_cast<S*>(product.result);
    if (product.problem.pass == ConvPass::kForward) {
      const int64_t elements = g.rows_out * g.out_channels;
      ConvKernel<<<BlocksFor(elements), kThreads, 0, ctx.stream>>>(g, a, b, result);
    } else if (product.problem.pass == ConvPass::kDx) {
      const int64_t elements = product.problem.geometry.rows_in() * g.in_channels;
      ConvDxKernel<<<BlocksFor(elements), kThreads, 0, ctx.stream>>>(g, elements, a, b, result);
    } else {
      const auto elements = static_cast<unsigned>(g.out_channels * g.taps * g.group_in);
      ConvDwKernel<<<elements, kThreads, 0, ctx.stream>>>(g, a, b, result);
    }
    gpu::CheckLaunch(ctx.op.name.c_str());
  });
}

graph::OpCall CallOf(const CudaContext& ctx) { return {ctx.op, {}, {}, ctx.attributes}; }

ConvGeometry ConvGeometryOf(const CudaContext& ctx) {
  return GeometryOf(CallOf(ctx), ctx.in_shape(0), ctx.in_shape(1));
}
ConvGeometry ConvDxGeometryOf(const CudaContext& ctx) {
  return GeometryOf(CallOf(ctx), ctx.out_shape(0), ctx.in_shape(1));
}
ConvGeometry ConvDwGeometryOf(const CudaContext& ctx) {
  return GeometryOf(CallOf(ctx), ctx.in_shape(0), GetShape(ctx.attributes));
}

Product ConvProduct(const CudaContext& ctx) {
  return ProductOf(ctx, ConvPass::kForward, ConvGeometryOf(ctx));
}

// The product dx of the call's first two operands: also that of a transposed convolution, before
// its bias.
Product ConvDxProduct(const CudaContext& ctx) {
  return ProductOf(ctx, ConvPass::kDx, ConvDxGeometryOf(ctx));
}

Product AddedConvDxProduct(const CudaContext& ctx) {
  Product product = ConvDxProduct(ctx);
  if (ctx.has_input(2)) Stage(ctx, ctx.outputs[0].type, product);
  return product;
}

Product ConvDwProduct(const CudaContext& ctx) {
  const graph::TensorType dweight{ctx.dtype(), ctx.out_shape(0)};
  Product product = ProductOf(ctx, ConvPass::kDw, ConvDwGeometryOf(ctx));
  if (ctx.has_input(2) || dweight.dtype != graph::DType::kFloat32) Stage(ctx, dweight, product);
  return product;
}

// Adds the bias to y, if the call has a bias.
void AddBias(const CudaContext& ctx) {
  if (!ctx.has_input(2)) return;
  const graph::Shape& y = ctx.out_shape(0);
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    AddBiasKernel<<<BlocksFor(y.elements()), kThreads, 0, ctx.stream>>>(
        y.elements(), y.dim(-1), ctx.in<S>(2), ctx.out<S>(0));
    gpu::CheckLaunch(ctx.op.name.c_str());
  });
}

void Conv(const CudaContext& ctx) {
  const ConvGeometry g = ConvGeometryOf(ctx);
  if (HasFewOutputs(ctx, g)) return ConvFewOutputs(ctx, g);
  if (g.linear()) return Linear(ctx);
  Run(ctx, ConvProduct(ctx));
  AddBias(ctx);
}

void ConvTranspose(const CudaContext& ctx) {
  if (const auto tiles = TilesOf(ctx, ConvDxGeometryOf(ctx))) return RunTiles(ctx, *tiles);
  Run(ctx, ConvDxProduct(ctx));
  AddBias(ctx);
}

void ConvDx(const CudaContext& ctx) {
  const ConvGeometry g = ConvDxGeometryOf(ctx);
  if (HasFewOutputs(ctx, g)) return ConvDxFewOutputs(ctx, g);
  if (g.linear()) return LinearDx(ctx);
  const Product product = AddedConvDxProduct(ctx);
  Run(ctx, product);
  if (!product.staged) return;
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    Map(ctx.stream, "conv_dx", ctx.out_shape(0).elements(), Sum(), ctx.out<S>(0),
        static_cast<const S*>(product.result), ctx.in<S>(2));
  });
}

void ConvDw(const CudaContext& ctx) {
  const ConvGeometry g = ConvDwGeometryOf(ctx);
  const bool few_outputs = HasFewOutputs(ctx, g);
  if (g.linear() && !few_outputs) return LinearDw(ctx);
  const graph::Shape& dy = ctx.in_shape(1);
  if (ctx.has_output(1)) {
    ColumnSums(ctx.stream, ctx.dtype(), ctx.in<void>(1), dy.rows(), dy.dim(-1), ctx.in<float>(3),
               ctx.out<float>(1), ctx.workspace);
  }
  if (!ctx.has_output(0)) return;
  if (few_outputs) return ConvDwFewOutputs(ctx, g);
  const Product product = ConvDwProduct(ctx);
  Run(ctx, product);
  if (!product.staged) return;
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    const int64_t elements = ctx.out_shape(0).elements();
    const auto* const from = static_cast<const S*>(product.result);
    if (ctx.has_input(2)) {
      Map(ctx.stream, "conv_dw", elements, Sum(), ctx.out<float>(0), from, ctx.in<float>(2));
    } else {
      Map(ctx.stream, "conv_dw", elements, Same(), ctx.out<float>(0), from);
    }
  });
}

void PrepareConv(const CudaContext& ctx) {
  const ConvGeometry g = ConvGeometryOf(ctx);
  if (HasFewOutputs(ctx, g)) return;
  if (g.linear()) return PrepareLinear(ctx);
  Prepare(ctx, ConvProduct(ctx));
}
void PrepareConvDx(const CudaContext& ctx) {
  const ConvGeometry g = ConvDxGeometryOf(ctx);
  if (HasFewOutputs(ctx, g)) return;
  if (g.linear()) return PrepareLinearDx(ctx);
  Prepare(ctx, AddedConvDxProduct(ctx));
}
void PrepareConvTranspose(const CudaContext& ctx) {
  if (const auto tiles = TilesOf(ctx, ConvDxGeometryOf(ctx))) return PrepareTiles(ctx, *tiles);
  Prepare(ctx, ConvDxProduct(ctx));
}
void PrepareConvDw(const CudaContext& ctx) {
  const ConvGeometry g = ConvDwGeometryOf(ctx);
  if (HasFewOutputs(ctx, g)) return;
  if (g.linear()) return PrepareLinearDw(ctx);
  if (ctx.has_output(0)) Prepare(ctx, ConvDwProduct(ctx));
}

const CudaKernelRegistration kConv({"conv", &Conv, &PrepareConv});
const CudaKernelRegistration kConvDx({"conv_dx", &ConvDx, &PrepareConvDx});
const CudaKernelRegistration kConvDw({"conv_dw", &ConvDw, &PrepareConvDw});
const CudaKernelRegistration kConvTranspose({"conv_transpose", &ConvTranspose,
                                             &PrepareConvTranspose});

}  // namespace
}  // namespace plimsoll::ops
