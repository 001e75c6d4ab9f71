// Formulas in ops/optimizer/muon.h. Each op makes one pass over memory; threads share blocks or
// chunks of elements; 16-bit elements are computed as float and rounded once. Bytes: each argument
// once; muon_momentum with a float32 buffer 4·n·s (reads g and buffer, writes u and buffer),
// stack_rows 2·n·s.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "ops/kernel.h"
#include "ops/optimizer/blocks.h"
#include "ops/optimizer/optimizer_state.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

enum : size_t { kGradient, kBuffer, kClip, kApply, kScales, kRng };

// The momentum of a step that is not applied.
void SkipMomentum(const CpuContext& ctx) {
  for (const auto& [input, output] : {std::pair(kBuffer, 1), std::pair(kScales, 2)}) {
    if (!ctx.has_input(input) || !ctx.has_output(output)) continue;
    const TensorRef &from = ctx.inputs[input], &to = ctx.outputs[output];
    if (from.data != to.data) std::memcpy(to.data, from.data, from.type.bytes());
  }
  std::memset(ctx.out<char>(0), 0, static_cast<size_t>(ctx.outputs[0].type.bytes()));
}

template <typename T>
void MuonMomentumAs(const CpuContext& ctx) {
  using For = RoundingBits::For;
  const T clip = ctx.has_input(kClip) ? static_cast<T>(*ctx.in<float>(kClip)) : T{1};
  const T momentum = static_cast<T>(ctx.attributes.GetReal("momentum"));
  const bool nesterov = ctx.attributes.GetBool("nesterov");
  const StoredGradient<T> gradient(ctx, kGradient);
  const Moment<T> buffer(ctx, kBuffer, kScales, 1, 2, kMomentEncoding);
  const RoundingBits bits(ctx, kRng);
  T* const u = ctx.out<T>(0);
  ParallelBlocks(ctx.pool, ctx.in_shape(kGradient).elements(), [&](Block block) {
    alignas(64) T stored_g[kStateBlock], stored_m[kStateBlock];
    alignas(64) uint32_t words[kStateBlock];
    const T* const g = gradient.Read(block, stored_g);
    const T* const m = buffer.Read(block, stored_m);
    T* const m_out = buffer.Target(block, stored_m);
    ForVectors<T>(0, block.count, [&](int64_t i, auto count) {
      const Vec<T> clipped = Load<T>(g + i, count) * clip;
      const Vec<T> moved = clipped + Load<T>(m + i, count) * momentum;
      Store<T>(m_out + i, moved, count);
      Store<T>(u + block.begin + i, nesterov ? clipped + moved * momentum : moved, count);
    });
    if (buffer.rounds()) bits.Draw(For::kFirstMoment, block, words);
    buffer.Write(block, m_out, bits.HalfOf(For::kFirstMoment, words));
  });
}

void MuonMomentum(const CpuContext& ctx) {
  if (ctx.has_input(kApply) && *ctx.in<int32_t>(kApply) == 0) return SkipMomentum(ctx);
  if (ctx.outputs[0].type.dtype == graph::DType::kFloat64) return MuonMomentumAs<double>(ctx);
  MuonMomentumAs<float>(ctx);
}

void DivideByNorm(const CpuContext& ctx) {
  const double norm =
      std::max(static_cast<double>(*ctx.in<float>(1)), ctx.attributes.GetReal("eps"));
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename From>() {
    using T = Compute<From>;
    const From* const x = ctx.in<From>(0);
    const T divisor = static_cast<T>(norm);
    DispatchStored(ctx.outputs[0].type.dtype, [&]<typename To>() {
      To* const y = ctx.out<To>(0);
      ctx.pool.ParallelFor(ctx.in_shape(0).elements(), kElementwiseGrain,
                           [=](int64_t begin, int64_t end) {
                             if constexpr (std::is_same_v<Compute<To>, T>) {
                               ForVectors<T>(begin, end, [=](int64_t i, auto count) {
                                 Store<T>(y + i, Load<T>(x + i, count) / divisor, count);
                               });
                             } else {
                               for (int64_t i = begin; i < end; ++i) {
                                 using Wide = Compute<To>;
                                 const Vec<Wide> quotient =
                                     Splat<Wide>(static_cast<Wide>(Load<T>(x + i, 1)[0] / divisor));
                                 Store<Wide>(y + i, quotient, 1);
                               }
                             }
                           });
    });
  });
}

void WeightedSum(const CpuContext& ctx) {
  const double alpha = ctx.attributes.GetReal("alpha"), beta = ctx.attributes.GetReal("beta");
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename Stored>() {
    using T = Compute<Stored>;
    const Stored *const x = ctx.in<Stored>(0), *const y = ctx.in<Stored>(1);
    Stored* const z = ctx.out<Stored>(0);
    const T of_x = static_cast<T>(alpha), of_y = static_cast<T>(beta);
    ParallelVectors<T>(ctx.pool, ctx.in_shape(0).elements(), [=](int64_t i, auto count) {
      Store<T>(z + i, Load<T>(x + i, count) * of_x + Load<T>(y + i, count) * of_y, count);
    });
  });
}

void StackRows(const CpuContext& ctx) {
  char* to = ctx.out<char>(0);
  for (const TensorRef& x : ctx.inputs) {
    to = std::copy_n(static_cast<const char*>(x.data), x.type.bytes(), to);
  }
}

const CpuKernelRegistration kMuonMomentum({"muon_momentum", &MuonMomentum});
const CpuKernelRegistration kDivideByNorm({"divide_by_norm", &DivideByNorm});
const CpuKernelRegistration kWeightedSum({"weighted_sum", &WeightedSum});
const CpuKernelRegistration kStackRows({"stack_rows", &StackRows});

}  // namespace
}  // namespace plimsoll::ops
