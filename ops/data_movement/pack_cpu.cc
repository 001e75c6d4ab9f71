// Copies one x after another, and clears the elements between them. Bytes: y twice.
#include <algorithm>

#include "ops/data_movement/pack.h"
#include "ops/kernel.h"

namespace plimsoll::ops {
namespace {

void PackTensors(const CpuContext& ctx) {
  const int64_t size = graph::ByteSize(ctx.inputs[0].type.dtype);
  char* to = ctx.out<char>(0);
  for (const TensorRef& x : ctx.inputs) {
    const int64_t bytes = x.type.bytes();
    const int64_t filled = PackedElements(x.type.shape.elements()) * size;
    std::copy_n(static_cast<const char*>(x.data), bytes, to);
    std::fill_n(to + bytes, filled - bytes, 0);
    to += filled;
  }
}

void Stack(const CpuContext& ctx) {
  char* to = ctx.out<char>(0);
  for (const TensorRef& x : ctx.inputs) {
    to = std::copy_n(static_cast<const char*>(x.data), x.type.bytes(), to);
  }
}

const CpuKernelRegistration kPack({"pack", &PackTensors});
const CpuKernelRegistration kStack({"stack", &Stack});

}  // namespace
}  // namespace plimsoll::ops
