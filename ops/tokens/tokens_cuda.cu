// slice_tokens, place_tokens  a row's tokens are contiguous, so a rectangle of bytes is copied, and
//                             the rest of a placed row is cleared. Bytes: the copied tokens twice,
//                             zeros once.
// prepend_token               a thread computes 16 bytes of y. Bytes: x and y once, position from
// L2.
#include "gpu/check.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;

// Sizes in bytes.
struct Part {
  Part(const CudaContext& ctx, const graph::TensorType& whole, const graph::TensorType& part)
      : rows(static_cast<size_t>(whole.shape.dim(0))) {
    const int64_t token = whole.shape.dim(2) * graph::ByteSize(whole.dtype);
    begin = static_cast<size_t>(ctx.attributes.GetInt("first") * token);
    size = static_cast<size_t>(part.shape.dim(1) * token);
    row = static_cast<size_t>(whole.shape.dim(1) * token);
  }

  size_t rows, begin, size, row;
};

void Copy(const CudaContext& ctx, char* to, size_t to_row, const char* from, size_t from_row,
          const Part& part) {
  if (part.rows == 0 || part.size == 0) return;
  gpu::Check(cudaMemcpy2DAsync(to, to_row, from, from_row, part.size, part.rows,
                               cudaMemcpyDeviceToDevice, ctx.stream),
             "cudaMemcpy2DAsync");
}

void Clear(const CudaContext& ctx, char* to, size_t size, const Part& part) {
  if (part.rows == 0 || size == 0) return;
  gpu::Check(cudaMemset2DAsync(to, part.row, 0, size, part.rows, ctx.stream), "cudaMemset2DAsync");
}

void Slice(const CudaContext& ctx) {
  const Part part(ctx, ctx.inputs[0].type, ctx.outputs[0].type);
  Copy(ctx, ctx.out<char>(0), part.size, ctx.in<char>(0) + part.begin, part.row, part);
}

void Place(const CudaContext& ctx) {
  const Part part(ctx, ctx.outputs[0].type, ctx.inputs[0].type);
  char* const y = ctx.out<char>(0);
  const size_t behind = part.begin + part.size;
  Clear(ctx, y, part.begin, part);
  Copy(ctx, y + part.begin, part.row, ctx.in<char>(0), part.size, part);
  Clear(ctx, y + behind, part.row - behind, part);
}

template <int N, typename S>
__global__ void __launch_bounds__(kThreads)
    PrependKernel(int64_t packs, int64_t tokens, int64_t width, const S* x, const S* token,
                  const S* position, S* y) {
  const int64_t pack = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (pack >= packs) return;
  const int64_t per_token = width / N, i = pack / per_token;
  const int64_t d = (pack - i * per_token) * N, b = i / tokens, t = i - b * tokens;
  float from[N], place[N];
  LoadPack<N>(t == 0 ? token + d : x + (b * (tokens - 1) + t - 1) * width + d, from);
  LoadPack<N>(position + t * width + d, place);
#pragma unroll
  for (int e = 0; e < N; ++e) from[e] += place[e];
  StoreGlobal(y + pack * N, from);
}

void Prepend(const CudaContext& ctx) {
  const graph::Shape& y = ctx.out_shape(0);
  const int64_t width = y.dim(2);
  if (y.elements() == 0) return;
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    const auto launch = [&]<int N>() {
      const int64_t packs = y.elements() / N;
      PrependKernel<N, S>
          <<<static_cast<unsigned>((packs + kThreads - 1) / kThreads), kThreads, 0, ctx.stream>>>(
              packs, y.dim(1), width, ctx.in<S>(0), ctx.in<S>(1), ctx.in<S>(2), ctx.out<S>(0));
      gpu::CheckLaunch("prepend_token");
    };
    constexpr int kPack = kPackSize<S>;
    const bool aligned = width % kPack == 0 && IsAligned(ctx.in<S>(0), 16) &&
                         IsAligned(ctx.in<S>(1), 16) && IsAligned(ctx.in<S>(2), 16) &&
                         IsAligned(ctx.out<S>(0), 16);
    aligned ? launch.template operator()<kPack>() : launch.template operator()<1>();
  });
}

const CudaKernelRegistration kSliceTokens({"slice_tokens", &Slice});
const CudaKernelRegistration kPlaceTokens({"place_tokens", &Place});
const CudaKernelRegistration kPrependToken({"prepend_token", &Prepend});

}  // namespace
}  // namespace plimsoll::ops
