// y = x where x > 0, else slope · x,   dx = dy where y > 0, else slope · dy. Threads share chunks
// of elements. Bytes: forward 2·n·s, backward 3·n·s.
//
// NaN is not above 0: y is NaN where x is, and dx is slope · dy there, as in PyTorch.
#include "ops/elementwise/cpu_elementwise.h"

namespace plimsoll::ops {
namespace {

void LeakyRelu(const CpuContext& ctx) {
  const double slope = ctx.attributes.GetReal("slope");
  MapElements<1>(ctx, [=]<typename T>(Vec<T> x) { return x > 0 ? x : x * static_cast<T>(slope); });
}

void LeakyReluBackward(const CpuContext& ctx) {
  const double slope = ctx.attributes.GetReal("slope");
  MapElements<2>(ctx, [=]<typename T>(Vec<T> y, Vec<T> dy) {
    return y > 0 ? dy : dy * static_cast<T>(slope);
  });
}

const CpuKernelRegistration kLeakyRelu({"leaky_relu", &LeakyRelu});
const CpuKernelRegistration kLeakyReluBackward({"leaky_relu_backward", &LeakyReluBackward});

}  // namespace
}  // namespace plimsoll::ops
