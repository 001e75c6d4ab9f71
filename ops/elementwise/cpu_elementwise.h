// Kernels that only compute out[i] = function(in[i], …), rounded once. Each takes one line. Threads
// share chunks of elements.
#pragma once

#include <cstdint>
#include <utility>

#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {

// Applies `function`, a template over the element type T of computation, to vectors of the first
// `kInputs` inputs, which have one type and shape: function.operator()<T>(Vec<T>, …) → Vec<T>. The
// result goes to output 0, which may have the memory of an input.
template <int kInputs, typename Function>
void MapElements(const CpuContext& ctx, const Function& function) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    [&]<size_t... kInput>(std::index_sequence<kInput...>) {
      const S* const in[] = {ctx.in<S>(kInput)...};
      S* const out = ctx.out<S>(0);
      // The copies of a chunk stay in registers: stores can't change them.
      ctx.pool.ParallelFor(
          ctx.in_shape(0).elements(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
            ForVectors<T>(begin, end, [=](int64_t i, auto count) {
              Store<T>(out + i, function.template operator()<T>(Load<T>(in[kInput] + i, count)...),
                       count);
            });
          });
    }
    (std::make_index_sequence<kInputs>());
  });
}

// Registers a kernel that only applies `function`, which has no state.
template <int kInputs, typename Function>
CpuKernelRegistration ElementwiseKernel(const char* op, Function) {
  return CpuKernelRegistration(
      {op, [](const CpuContext& ctx) { MapElements<kInputs>(ctx, Function()); }});
}

}  // namespace plimsoll::ops
