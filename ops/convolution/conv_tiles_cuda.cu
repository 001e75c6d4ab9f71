// y of a transposed convolution from x[pixels, O] and weight[O, taps, I]:
//   tiles[pixel, tap, i] = Σ_o x[pixel, o] · weight[o, tap, i]
//   y[p, i] = Σ over the (pixel, tap) that contribute to p of tiles[pixel, tap, i] + bias[i]
//
// A matrix product computes the tiles of some pixels at a time in the scratch memory. Another
// kernel then moves them, mostly from L2, to y. If the kernel size is the stride, without padding,
// each pixel of y is in one tile: a thread moves 16 bytes of a tile. Otherwise tiles overlap. Then
// they are float32 and of complete images, and a thread sums those that contribute to its element
// of y, in the order of the taps.
//
// Bytes: every argument once, and the tiles twice.
#include <algorithm>
#include <limits>
#include <numeric>

#include "gpu/check.h"
#include "ops/convolution/conv_kernels_cuda.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/products/gemm.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 128;

unsigned BlocksFor(int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

int64_t PackOf(const CudaContext& ctx) { return 16 / graph::ByteSize(ctx.dtype()); }

// The product of some pixels of x and the weight. The tiles are after the product's own scratch
// memory.
struct Product {
  int64_t pixels = 0;  // pixels at a time; 0: the scratch memory is too small
  GemmProblem problem;
  GemmBuffers buffers;

  Product(const CudaContext& ctx, const ConvTiles& call) : geometry_(call.geometry) {
    const ConvGeometry& g = geometry_;
    problem.k = problem.lda = g.out_channels;
    problem.n = problem.ldb = problem.ldc = g.taps() * g.in_channels;
    problem.type_a = problem.type_b = ctx.dtype();
    problem.result = call.overlap ? graph::DType::kFloat32 : ctx.dtype();
    problem.tf32 = UsesTf32(ctx.attributes, ctx.dtype());
    const int64_t half = call.workspace_bytes / 2 / 256 * 256;
    const int64_t tile = problem.n * graph::ByteSize(problem.result);
    const int64_t unit = call.overlap ? Volume(g.out) : 128;
    int64_t units = half / tile / unit;
    if (call.overlap) {  // SumTilesKernel counts elements of y in 32 bits
      const int64_t image_of_y = Volume(g.in) * g.in_channels;
      units = std::min(units, std::numeric_limits<int>::max() / image_of_y);
    }
    pixels = std::clamp<int64_t>(units * unit, 0, g.rows_out());
    x_ = ctx.in<char>(0);
    pixel_bytes_ = g.out_channels * graph::ByteSize(ctx.dtype());
    buffers.b = ctx.in<void>(1);
    buffers.workspace = ctx.workspace;
    buffers.workspace_bytes = half;
    buffers.d = static_cast<char*>(ctx.workspace) + half;
  }

  // Calls `run` with the first pixel and the number of pixels of each product.
  template <typename Run>
  void ForEach(const Run& run) {
    for (int64_t first = 0; first < geometry_.rows_out(); first += pixels) {
      problem.m = std::min(pixels, geometry_.rows_out() - first);
      buffers.a = x_ + first * pixel_bytes_;
      run(first, problem.m);
    }
  }

 private:
  const ConvGeometry& geometry_;
  const char* x_;
  int64_t pixel_bytes_;
};

// Along one dimension, the taps that contribute to a pixel of y are `step` apart, and their pixels
// of x are `back` apart.
struct DeviceTaps {
  int y, x, kernel, stride, pad, dilation, step, back;

  DeviceTaps(const ConvGeometry& g, int i)
      : y(static_cast<int>(g.in[i])),
        x(static_cast<int>(g.out[i])),
        kernel(static_cast<int>(g.kernel[i])),
        stride(static_cast<int>(g.stride[i])),
        pad(static_cast<int>(g.pad[i])),
        dilation(static_cast<int>(g.dilation[i])),
        step(stride / std::gcd(stride, dilation)),
        back(step * dilation / stride) {}

  // Calls `meet` with each tap and its pixel of x, in the order of the taps.
  template <typename Meet>
  __device__ void ForEach(int pixel, const Meet& meet) const {
    int tap = 0;
    while (tap < step && (pixel + pad - tap * dilation) % stride != 0) ++tap;
    if (tap == step) return;
    int at = (pixel + pad - tap * dilation) / stride;
    for (; tap < kernel && at >= 0; tap += step, at -= back) {
      if (at < x) meet(tap, at);
    }
  }
};

struct DeviceTiles {
  int channels, taps;
  DeviceTaps of[3];

  explicit DeviceTiles(const ConvGeometry& g)
      : channels(static_cast<int>(g.in_channels)),
        taps(static_cast<int>(g.taps())),
        of{{g, 0}, {g, 1}, {g, 2}} {}
};

// `y` begins at the first image that the tiles belong to.
template <typename S>
__global__ void __launch_bounds__(kThreads)
    SumTilesKernel(DeviceTiles g, int elements, const float* tiles, const S* bias, S* y) {
  const int n = blockIdx.x * kThreads + threadIdx.x;
  if (n >= elements) return;
  const int channel = n % g.channels;
  int image = n / g.channels, at[3];
#pragma unroll
  for (int i = 2; i >= 0; --i) {
    at[i] = image % g.of[i].y;
    image /= g.of[i].y;
  }
  float sum = 0;
  g.of[0].ForEach(at[0], [&](int tap0, int x0) {
    g.of[1].ForEach(at[1], [&](int tap1, int x1) {
      g.of[2].ForEach(at[2], [&](int tap2, int x2) {
        const int pixel = ((image * g.of[0].x + x0) * g.of[1].x + x1) * g.of[2].x + x2;
        const int tap = (tap0 * g.of[1].kernel + tap1) * g.of[2].kernel + tap2;
        sum += tiles[(int64_t{pixel} * g.taps + tap) * g.channels + channel];
      });
    });
  });
  if (bias != nullptr) sum += ToFloat(bias[channel]);
  y[n] = FromFloat<S>(sum);
}

// A thread moves one pack of y. The kernel size is the stride, so that a pixel of y has one tap in
// one tile.
template <typename S>
__global__ void __launch_bounds__(kThreads)
    PlaceTilesKernel(DeviceTiles g, int64_t first, int64_t packs, const S* tiles, const S* bias,
                     S* y) {
  constexpr int N = kPackSize<S>;
  const int64_t n = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (n >= packs) return;
  const int64_t of_pixel = g.channels / N, channel = n % of_pixel * N;
  int64_t tap = n / of_pixel % g.taps, pixel = first + n / of_pixel / g.taps;
  int64_t row = 0, scale = 1;
#pragma unroll
  for (int i = 2; i >= 0; --i) {
    row += (pixel % g.of[i].x * g.of[i].kernel + tap % g.of[i].kernel) * scale;
    scale *= g.of[i].y;
    pixel /= g.of[i].x;
    tap /= g.of[i].kernel;
  }
  row += pixel * scale;  // the rest is the image
  float values[N];
  LoadPack<N>(tiles + n * N, values);
  if (bias != nullptr) {
    float added[N];
    LoadPack<N>(bias + channel, added);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] += added[i];
  }
  StorePack<N>(y + row * g.channels + channel, values);
}

bool MayRun(const CudaContext& ctx, const ConvTiles& tiles) {
  return tiles.geometry.groups == 1 && tiles.geometry.rows_out() > 0 &&
         Product(ctx, tiles).pixels > 0;
}

}  // namespace

std::optional<ConvTiles> OverlappingTiles(const CudaContext& ctx, const ConvGeometry& geometry,
                                          void* y, int64_t workspace_bytes) {
  const ConvTiles tiles = {.geometry = geometry, .y = y, .workspace_bytes = workspace_bytes};
  return MayRun(ctx, tiles) ? std::optional(tiles) : std::nullopt;
}

std::optional<ConvTiles> TilesOf(const CudaContext& ctx, const ConvGeometry& g) {
  const bool whole = g.in_channels % PackOf(ctx) == 0;  // whether pixels of y are complete packs,
                                                        // as cuDNN needs
  bool apart = whole && g.pad == Spatial{0, 0, 0} && g.kernel == g.stride &&
               Aligned(ctx.in<void>(2), ctx.out<void>(0));
  for (int i = 0; i < 3; ++i) apart = apart && g.in[i] == g.out[i] * g.kernel[i];
  if (!apart && (whole || UsesTf32(ctx.attributes, ctx.dtype()))) return std::nullopt;
  const ConvTiles tiles = {.geometry = g,
                           .overlap = !apart,
                           .bias = ctx.in<void>(2),
                           .y = ctx.out<void>(0),
                           .workspace_bytes = ctx.workspace_bytes};
  return MayRun(ctx, tiles) ? std::optional(tiles) : std::nullopt;
}

void RunTiles(const CudaContext& ctx, const ConvTiles& call) {
  const ConvGeometry& geometry = call.geometry;
  const DeviceTiles g(geometry);
  Product product(ctx, call);
  product.ForEach([&](int64_t first, int64_t pixels) {
    Gemm(ctx.libraries, ctx.stream, product.problem, product.buffers);
    DispatchCuda(ctx.dtype(), [&]<typename S>() {
      const auto* const bias = static_cast<const S*>(call.bias);
      auto* const y = static_cast<S*>(call.y);
      const void* const tiles = product.buffers.d;
      if (call.overlap) {
        const int64_t of_x = Volume(geometry.out),
                      of_y = Volume(geometry.in) * geometry.in_channels,
                      elements = pixels / of_x * of_y;
        SumTilesKernel<<<BlocksFor(elements), kThreads, 0, ctx.stream>>>(
            g, static_cast<int>(elements), static_cast<const float*>(tiles), bias,
            y + first / of_x * of_y);
      } else {
        const int64_t packs = pixels * g.taps * g.channels / kPackSize<S>;
        PlaceTilesKernel<<<BlocksFor(packs), kThreads, 0, ctx.stream>>>(
            g, first, packs, static_cast<const S*>(tiles), bias, y);
      }
      gpu::CheckLaunch(ctx.op.name.c_str());
    });
  });
}

void PrepareTiles(const CudaContext& ctx, const ConvTiles& call) {
  Product product(ctx, call);
  product.ForEach([&](int64_t, int64_t) {
    PrepareGemm(ctx.libraries, ctx.stream, product.problem, product.buffers);
  });
}

}  // namespace plimsoll::ops
