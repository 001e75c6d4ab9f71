// A row of a patch is p·C elements that are contiguous in the image as well. Threads share the
// images' rows, and copy these runs. Bytes: every argument once.
#include <algorithm>
#include <cstring>

#include "ops/kernel.h"

namespace plimsoll::ops {
namespace {

// Calls copy(offset in the image tensor, offset in the patches, bytes) for every row of a patch.
template <typename Copy>
void ForRows(const CpuContext& ctx, const graph::TensorType& images, const Copy& copy) {
  const graph::Shape& x = images.shape;
  const int64_t p = ctx.attributes.GetInt("size"), h = x.dim(1), w = x.dim(2);
  const int64_t run = p * x.dim(3) * graph::ByteSize(images.dtype), across = w / p;
  ctx.pool.ParallelFor(x.dim(0) * h, 8, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = row / h, i = row % h / p, r = row % p;
      for (int64_t j = 0; j < across; ++j) {
        const int64_t patch = (b * (h / p) + i) * across + j;
        copy((row * across + j) * run, (patch * p + r) * run, static_cast<size_t>(run));
      }
    }
  });
}

void Patches(const CpuContext& ctx) {
  ForRows(ctx, ctx.inputs[0].type, [&](int64_t image, int64_t patch, size_t bytes) {
    std::memcpy(ctx.out<char>(0) + patch, ctx.in<char>(0) + image, bytes);
  });
}

void PatchesBackward(const CpuContext& ctx) {
  ForRows(ctx, ctx.outputs[0].type, [&](int64_t image, int64_t patch, size_t bytes) {
    std::memcpy(ctx.out<char>(0) + image, ctx.in<char>(0) + patch, bytes);
  });
}

const CpuKernelRegistration kPatches({"patches", &Patches});
const CpuKernelRegistration kPatchesBackward({"patches_backward", &PatchesBackward});

}  // namespace
}  // namespace plimsoll::ops
