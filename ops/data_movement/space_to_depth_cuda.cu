// y[b,i,j,(u·s+v)·C+c] = x[b,i·s−pad_h+u,j·s−pad_w+v,c], where s is the block; 0 outside of x and
// in channels from s²·C on. dx is the inverse; 0 in pixels that no block has.
//
// A thread block writes one row of y or dx. The s·C elements of x in a row of a block are
// contiguous in x and in y.
//   y, if s = 2, C ≤ 4, and pixels have no more packs of 16 bytes than their channels need: a
//   thread
//      writes pixels, 16 bytes at a time, whose elements it reads one by one: blocks begin at any
//      element of x. Neighbouring threads read neighbouring elements, and no other thread block
//      reads these rows of x, so that memory is read once.
//   y, otherwise: a thread writes one element at a time.
//   dx: a thread writes 16 bytes at a time if rows consist of them, otherwise one element.
// Bytes: the elements read of x, and all of y; backward the elements read of dy, and all of dx.
#include <algorithm>

#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda_kernel.h"
#include "ops/data_movement/space_to_depth.h"

namespace plimsoll::ops {
namespace {

constexpr int kMostThreads = 256;

// The sizes of a call between images x and the block images y, in 32 bits (space_to_depth.cc).
struct BlockRows {
  int block;
  int run;              // elements in a block's row of pixels
  int x_height, x_row;  // number of rows, and elements of a row
  int y_height, y_row;  // number of rows of y, and elements of a row
  int y_width, channels;
  int pad_h, skipped;  // rows above x, elements left of x in a row

  BlockRows(const graph::Attributes& attributes, const graph::Shape& x, const graph::Shape& y)
      : block(static_cast<int>(attributes.GetInt("block"))),
        run(static_cast<int>(block * x.dim(3))),
        x_height(static_cast<int>(x.dim(1))),
        x_row(static_cast<int>(x.dim(2) * x.dim(3))),
        y_height(static_cast<int>(y.dim(1))),
        y_row(static_cast<int>(y.dim(2) * y.dim(3))),
        y_width(static_cast<int>(y.dim(2))),
        channels(static_cast<int>(y.dim(3))),
        pad_h(static_cast<int>(attributes.GetInt("pad_h"))),
        skipped(static_cast<int>(attributes.GetInt("pad_w") * x.dim(3))) {}
};

// The row of y that a thread block writes.
template <typename T>
struct RowOfY {
  int top;        // the first row of x in the blocks; may be above x
  const T* from;  // the beginning of that row
  T* to;

  __device__ RowOfY(const BlockRows& rows, const T* x, T* y) {
    const int row = static_cast<int>(blockIdx.x), image = row / rows.y_height;
    top = row % rows.y_height * rows.block - rows.pad_h;
    from = x + (int64_t{image} * rows.x_height + top) * rows.x_row;
    to = y + int64_t{row} * rows.y_row;
  }
};

__device__ inline bool IsWithin(int at, int size) {
  return static_cast<unsigned>(at) < static_cast<unsigned>(size);
}

// The elements of 2 × 2 pixels of kChannels channels, rounded up to full packs.
template <typename T, int kChannels>
inline constexpr int kPixel = (4 * kChannels + kPackSize<T> - 1) / kPackSize<T>* kPackSize<T>;

template <int kChannels, typename T>
__global__ void __launch_bounds__(kMostThreads)
    SpaceToDepthPixelsKernel(const T* x, BlockRows rows, T* y) {
  constexpr int kRun = 2 * kChannels, kSize = kPixel<T, kChannels>, kPack = kPackSize<T>;
  const RowOfY<T> row(rows, x, y);
  for (int j = static_cast<int>(threadIdx.x); j < rows.y_width; j += static_cast<int>(blockDim.x)) {
    const int left = j * kRun - rows.skipped;  // may be negative: left of x
    Pack<T, kPack> packs[kSize / kPack];
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      const int u = k / kRun, at = left + k % kRun;
      const bool taken = u < 2 && IsWithin(row.top + u, rows.x_height) && IsWithin(at, rows.x_row);
      packs[k / kPack].values[k % kPack] =
          taken ? row.from[int64_t{u} * rows.x_row + at] : FromFloat<T>(0);
    }
#pragma unroll
    for (int p = 0; p < kSize / kPack; ++p) {
      WriteGlobal(row.to + int64_t{j} * kSize + p * kPack, packs[p]);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kMostThreads)
    SpaceToDepthKernel(const T* x, BlockRows rows, T* y) {
  const RowOfY<T> row(rows, x, y);
  for (int k = static_cast<int>(threadIdx.x); k < rows.y_row; k += static_cast<int>(blockDim.x)) {
    const int channel = k % rows.channels, u = channel / rows.run;
    const int at = k / rows.channels * rows.run - rows.skipped + channel % rows.run;
    const bool taken =
        u < rows.block && IsWithin(row.top + u, rows.x_height) && IsWithin(at, rows.x_row);
    row.to[k] = taken ? row.from[int64_t{u} * rows.x_row + at] : FromFloat<T>(0);
  }
}

template <int N, typename T>
__global__ void __launch_bounds__(kMostThreads)
    SpaceToDepthBackwardKernel(const T* dy, BlockRows rows, T* dx) {
  const int row = static_cast<int>(blockIdx.x), image = row / rows.x_height;
  const int below = row % rows.x_height + rows.pad_h;
  const int i = below / rows.block, u = below % rows.block;
  const bool in_blocks = i < rows.y_height;
  const T* const from = dy + (int64_t{image} * rows.y_height + i) * rows.y_row + u * rows.run;
  T* const to = dx + int64_t{row} * rows.x_row;
  for (int first = static_cast<int>(threadIdx.x) * N; first < rows.x_row;
       first += static_cast<int>(blockDim.x) * N) {
    int j = (first + rows.skipped) / rows.run, within = (first + rows.skipped) % rows.run;
    Pack<T, N> pack;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const bool taken = in_blocks && j < rows.y_width;
      pack.values[k] = taken ? from[j * rows.channels + within] : FromFloat<T>(0);
      if (++within == rows.run) {
        within = 0;
        ++j;
      }
    }
    WriteGlobal(to + first, pack);
  }
}

// Calls launch(blocks, threads): a thread block for each row of `written`, and full warps for the
// `items` of a row.
template <typename Launch>
void ForRows(const graph::Shape& written, int64_t items, Launch launch) {
  if (written.elements() == 0) return;
  const int64_t threads = std::clamp<int64_t>((items + 31) / 32 * 32, 32, kMostThreads);
  launch(static_cast<unsigned>(written.dim(0) * written.dim(1)), static_cast<unsigned>(threads));
}

// If y consists of such pixels, writes it and returns true.
template <int kChannels, typename T>
bool WritesPixels(const CudaContext& ctx, const BlockRows& rows) {
  const graph::Shape& y = ctx.out_shape(0);
  if (rows.block != 2 || ctx.in_shape(0).dim(3) != kChannels ||
      rows.channels != kPixel<T, kChannels> || !Aligned(ctx.out<T>(0))) {
    return false;
  }
  ForRows(y, y.dim(2), [&](unsigned blocks, unsigned threads) {
    SpaceToDepthPixelsKernel<kChannels>
        <<<blocks, threads, 0, ctx.stream>>>(ctx.in<T>(0), rows, ctx.out<T>(0));
  });
  return true;
}

void SpaceToDepth(const CudaContext& ctx) {
  const graph::Shape& y = ctx.out_shape(0);
  const BlockRows rows(ctx.attributes, ctx.in_shape(0), y);
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    if (WritesPixels<1, T>(ctx, rows) || WritesPixels<2, T>(ctx, rows) ||
        WritesPixels<3, T>(ctx, rows) || WritesPixels<4, T>(ctx, rows)) {
      return;
    }
    ForRows(y, rows.y_row, [&](unsigned blocks, unsigned threads) {
      SpaceToDepthKernel<<<blocks, threads, 0, ctx.stream>>>(ctx.in<T>(0), rows, ctx.out<T>(0));
    });
  });
  gpu::CheckLaunch("space_to_depth");
}

void SpaceToDepthBackward(const CudaContext& ctx) {
  const graph::Shape& dx = ctx.out_shape(0);
  const BlockRows rows(ctx.attributes, dx, ctx.in_shape(0));
  DispatchCuda(ctx.dtype(), [&]<typename T>() {
    const auto launch = [&]<int N>() {
      ForRows(dx, rows.x_row / N, [&](unsigned blocks, unsigned threads) {
        SpaceToDepthBackwardKernel<N>
            <<<blocks, threads, 0, ctx.stream>>>(ctx.in<T>(0), rows, ctx.out<T>(0));
      });
    };
    if (rows.x_row % kPackSize<T> == 0 && Aligned(ctx.out<T>(0))) {
      launch.template operator()<kPackSize<T>>();
    } else {
      launch.template operator()<1>();
    }
  });
  gpu::CheckLaunch("space_to_depth_backward");
}

const CudaKernelRegistration kSpaceToDepth({"space_to_depth", &SpaceToDepth});
const CudaKernelRegistration kSpaceToDepthBackward({"space_to_depth_backward",
                                                    &SpaceToDepthBackward});

}  // namespace
}  // namespace plimsoll::ops
