// y = max(x, 0),   dx = dy where y > 0, else 0. Threads share chunks of elements.
// Bytes: forward 2·n·s, backward 3·n·s.
//
// The conditions let NaN through: y is NaN where x is, and dx is dy there, as in PyTorch.
#include "ops/elementwise/cpu_elementwise.h"

namespace plimsoll::ops {
namespace {

void Relu(const CpuContext& ctx) {
  MapElements<1>(ctx, []<typename T>(Vec<T> x) { return x <= 0 ? Vec<T>{} : x; });
}

void ReluBackward(const CpuContext& ctx) {
  MapElements<2>(ctx, []<typename T>(Vec<T> y, Vec<T> dy) { return y <= 0 ? Vec<T>{} : dy; });
}

const CpuKernelRegistration kRelu({"relu", &Relu});
const CpuKernelRegistration kReluBackward({"relu_backward", &ReluBackward});

}  // namespace
}  // namespace plimsoll::ops
