// A row of a patch is p·C elements that are contiguous in the image as well. A thread moves a piece
// of 16 bytes of it, or less if 16 does not divide the row. Bytes: every argument once.
#include "gpu/check.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;

// The layout of images and patches, counted in pieces of a row.
struct PatchLayout {
  int64_t pieces;  // number of pieces of a row of a patch
  int64_t across;  // patches side by side
  int64_t p;       // rows of a patch
  int64_t count;   // number of all pieces
};

template <typename Piece, bool kBack>
__global__ void __launch_bounds__(kThreads)
    PatchesKernel(const __grid_constant__ PatchLayout a, const Piece* from, Piece* to) {
  const int64_t image = int64_t{blockIdx.x} * kThreads + threadIdx.x;  // index of the piece in the
                                                                       // images
  if (image >= a.count) return;
  const int64_t run = image / a.pieces, piece = image - run * a.pieces;
  const int64_t row = run / a.across, j = run - row * a.across;
  const int64_t i = row / a.p, r = row - i * a.p;  // p divides the height: i counts over images
  const int64_t patch = ((i * a.across + j) * a.p + r) * a.pieces + piece;
  kBack ? to[image] = from[patch] : to[patch] = from[image];
}

template <bool kBack>
void Move(const CudaContext& ctx, const graph::TensorType& images) {
  const graph::Shape& x = images.shape;
  const int64_t p = ctx.attributes.GetInt("size");
  const int64_t run = p * x.dim(3) * graph::ByteSize(images.dtype);
  const int64_t bytes = images.bytes();
  if (bytes == 0) return;
  const auto launch = [&]<typename Piece>() {
    const PatchLayout layout{run / int64_t{sizeof(Piece)}, x.dim(2) / p, p,
                             bytes / int64_t{sizeof(Piece)}};
    const auto blocks = static_cast<unsigned>((layout.count + kThreads - 1) / kThreads);
    PatchesKernel<Piece, kBack>
        <<<blocks, kThreads, 0, ctx.stream>>>(layout, ctx.in<Piece>(0), ctx.out<Piece>(0));
    gpu::CheckLaunch("patches");
  };
  const auto fits = [&](int64_t size) {
    return run % size == 0 && IsAligned(ctx.in<void>(0), static_cast<size_t>(size)) &&
           IsAligned(ctx.out<void>(0), static_cast<size_t>(size));
  };
  if (fits(16)) return launch.template operator()<uint4>();
  if (fits(4)) return launch.template operator()<uint32_t>();
  launch.template operator()<uint16_t>();
}

void Patches(const CudaContext& ctx) { Move<false>(ctx, ctx.inputs[0].type); }
void PatchesBackward(const CudaContext& ctx) { Move<true>(ctx, ctx.outputs[0].type); }

const CudaKernelRegistration kPatches({"patches", &Patches});
const CudaKernelRegistration kPatchesBackward({"patches_backward", &PatchesBackward});

}  // namespace
}  // namespace plimsoll::ops
