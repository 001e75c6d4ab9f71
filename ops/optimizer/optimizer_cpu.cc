// Formulas in ops/optimizer/optimizer.h, storage in ops/optimizer/optimizer_state.h. One pass over
// memory; threads share blocks of elements. adamw consists of three Eigen expressions on a block.
// The terms of sgd depend on which arguments are present, so it uses vectors. Bytes: each argument
// once in its stored form; with float32 weights and moments adamw 7·n·s (reads p, g, m, v; writes
// p, m, v), sgd 3·n·s, with momentum 5·n·s.
#include <cmath>
#include <cstring>

#include "ops/kernel.h"
#include "ops/optimizer/blocks.h"
#include "ops/optimizer/optimizer_state.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

// Scratch in the first-level cache: a block of each tensor that cannot be computed with in place.
template <typename T>
struct Scratch {
  alignas(64) T p[kStateBlock], g[kStateBlock], m[kStateBlock], v[kStateBlock];
  alignas(64) uint32_t moment_words[kStateBlock], weight_words[kStateBlock];
};

// Whether the step is skipped, and so leaves everything unchanged.
bool IsSkipped(const CpuContext& ctx, size_t apply) {
  return ctx.has_input(apply) && *ctx.in<int32_t>(apply) == 0;
}

// The parameter's learning rate.
double LearningRate(const CpuContext& ctx, size_t lr) {
  const double factor = ctx.attributes.Has("lr_factor") ? ctx.attributes.GetReal("lr_factor") : 1.0;
  return *ctx.in<float>(lr) * factor;
}

void CopyThrough(const CpuContext& ctx) {
  for (const graph::InPlacePair& pair : ctx.op.in_place) {
    if (!ctx.has_input(pair.input) || !ctx.has_output(pair.output)) continue;
    const TensorRef& from = ctx.inputs[pair.input];
    const TensorRef& to = ctx.outputs[pair.output];
    if (from.data != to.data) std::memcpy(to.data, from.data, from.type.bytes());
  }
}

void Increment(const CpuContext& ctx) {
  *ctx.out<int32_t>(0) = *ctx.in<int32_t>(0) + (IsSkipped(ctx, 1) ? 0 : 1);
}

template <typename T>
void AdamWAs(const CpuContext& ctx) {
  enum : size_t { kP, kG, kM, kV, kLr, kCount, kClip, kApply, kMaster, kScaleM, kScaleV, kRng };
  using For = RoundingBits::For;
  const double lr = LearningRate(ctx, kLr);
  const double count = *ctx.in<int32_t>(kCount);
  const double beta1 = ctx.attributes.GetReal("beta1");
  const double beta2 = ctx.attributes.GetReal("beta2");
  const T clip = ctx.has_input(kClip) ? static_cast<T>(*ctx.in<float>(kClip)) : T{1};
  const T decay = static_cast<T>(1 - lr * ctx.attributes.GetReal("weight_decay"));
  const T share1 = static_cast<T>(1 - beta1);
  const T keep2 = static_cast<T>(beta2), share2 = static_cast<T>(1 - beta2);
  const T step = static_cast<T>(lr / (1 - std::pow(beta1, count)));
  const T root = static_cast<T>(1 / std::sqrt(1 - std::pow(beta2, count)));
  const T eps = static_cast<T>(ctx.attributes.GetReal("eps"));
  const Weight<T> weight(ctx, kP, kMaster, 0, 3);
  const Moment<T> first(ctx, kM, kScaleM, 1, 4, kMomentEncoding);
  const Moment<T> second(ctx, kV, kScaleV, 2, 5, kSecondMomentEncoding);
  const RoundingBits bits(ctx, kRng);
  const StoredGradient<T> gradient(ctx, kG);

  ParallelBlocks(ctx.pool, ctx.in_shape(kP).elements(), [&](Block block) {
    Scratch<T> scratch;
    const Block of{0, block.count};
    const T* const g = gradient.Read(block, scratch.g);
    const T* const m = first.Read(block, scratch.m);
    const T* const v = second.Read(block, scratch.v);
    const T* const p = weight.Read(block, scratch.p);
    T* const m_out = first.Target(block, scratch.m);
    T* const v_out = second.Target(block, scratch.v);
    T* const p_out = weight.Target(block, scratch.p);
    of(m_out) = of(m) + (of(g) * clip - of(m)) * share1;
    of(v_out) = of(v) * keep2 + (of(g) * clip).square() * share2;
    of(p_out) = of(p) * decay - of(m_out) / (of(v_out).sqrt() * root + eps) * step;
    if (first.rounds() || second.rounds()) {
      bits.Draw(For::kFirstMoment, block, scratch.moment_words);
    }
    if (weight.rounds()) bits.Draw(For::kWeight, block, scratch.weight_words);
    first.Write(block, m_out, bits.HalfOf(For::kFirstMoment, scratch.moment_words));
    second.Write(block, v_out, bits.HalfOf(For::kSecondMoment, scratch.moment_words));
    weight.Write(block, p_out, bits.HalfOf(For::kWeight, scratch.weight_words));
  });
}

void AdamW(const CpuContext& ctx) {
  if (IsSkipped(ctx, 7)) return CopyThrough(ctx);
  if (ctx.inputs[0].type.dtype == graph::DType::kFloat64) return AdamWAs<double>(ctx);
  AdamWAs<float>(ctx);
}

template <typename T>
void SgdAs(const CpuContext& ctx) {
  enum : size_t { kP, kG, kMomentum, kLr, kClip, kApply, kMaster, kScale, kRng };
  using For = RoundingBits::For;
  const T lr = static_cast<T>(LearningRate(ctx, kLr));
  const T clip = ctx.has_input(kClip) ? static_cast<T>(*ctx.in<float>(kClip)) : T{1};
  const T momentum = static_cast<T>(ctx.attributes.GetReal("momentum"));
  const T decay = static_cast<T>(ctx.attributes.GetReal("weight_decay"));
  const bool nesterov = ctx.attributes.GetBool("nesterov");
  const Weight<T> weight(ctx, kP, kMaster, 0, 2);
  const Moment<T> buffer(ctx, kMomentum, kScale, 1, 3, kMomentEncoding);
  const RoundingBits bits(ctx, kRng);
  const StoredGradient<T> gradient(ctx, kG);

  ParallelBlocks(ctx.pool, ctx.in_shape(kP).elements(), [&](Block block) {
    Scratch<T> scratch;
    const T* const g = gradient.Read(block, scratch.g);
    const T* const p = weight.Read(block, scratch.p);
    const T* const m = buffer.present() ? buffer.Read(block, scratch.m) : nullptr;
    T* const p_out = weight.Target(block, scratch.p);
    T* const m_out = buffer.Target(block, scratch.m);
    ForVectors<T>(0, block.count, [&](int64_t i, auto count) {
      const Vec<T> old_p = Load<T>(p + i, count);
      const Vec<T> decayed = Load<T>(g + i, count) * clip + old_p * decay;
      Vec<T> moved = decayed;  // the buffer; an absent buffer counts as zero
      if (m != nullptr) {
        moved += Load<T>(m + i, count) * momentum;
        Store<T>(m_out + i, moved, count);
      }
      const Vec<T> direction = nesterov ? decayed + moved * momentum : moved;
      Store<T>(p_out + i, old_p - direction * lr, count);
    });
    if (buffer.present() && buffer.rounds()) {
      bits.Draw(For::kFirstMoment, block, scratch.moment_words);
    }
    if (weight.rounds()) bits.Draw(For::kWeight, block, scratch.weight_words);
    if (buffer.present()) {
      buffer.Write(block, m_out, bits.HalfOf(For::kFirstMoment, scratch.moment_words));
    }
    weight.Write(block, p_out, bits.HalfOf(For::kWeight, scratch.weight_words));
  });
}

void Sgd(const CpuContext& ctx) {
  if (IsSkipped(ctx, 5)) return CopyThrough(ctx);
  if (ctx.inputs[0].type.dtype == graph::DType::kFloat64) return SgdAs<double>(ctx);
  SgdAs<float>(ctx);
}

const CpuKernelRegistration kIncrement({"increment", &Increment});
const CpuKernelRegistration kAdamW({"adamw", &AdamW});
const CpuKernelRegistration kSgd({"sgd", &Sgd});

}  // namespace
}  // namespace plimsoll::ops
