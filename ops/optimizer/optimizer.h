// Optimizer updates of one parameter: AdamW and SGD, with weight decay. They write persistent
// tensors in place: weight, state and counter are both inputs and outputs of the node.
//
// A weight is stored in one of these ways (T: float32, for f64 tensors float64):
//   p f32 or f64               p is the value
//   p bf16, master i16         both are exactly a float32: its bits are (p.bits << 16) + master,
//   and
//                              p is that value rounded to nearest, ties away from zero. 4 bytes
//   p bf16 or f16, master f32  the master is the value, p its rounding to nearest. 6 bytes
//   p bf16                     p is rounded stochastically at each update, so that updates smaller
//                              than p's spacing count in the mean. 2 bytes
// A moment is stored in one of these ways:
//   f32 (f64 for p f64)        the value itself
//   bf16                       rounded stochastically
//   u8, scale f32              8-bit codes, a scale for each block of kStateBlock elements in
//                              memory order (ops/encodings.h)
// Bytes of zero mean the moment zero in each form. All arithmetic is done in T. The gradient has
// type T, or bf16 if T is float32.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"
#include "ops/encodings.h"

namespace plimsoll::ops {

// How moments are stored in 8 bits. AdamW's second moments are never negative.
inline constexpr const Encoding& kMomentEncoding = kDynamic8;
inline constexpr const Encoding& kSecondMomentEncoding = kDynamic8Unsigned;

// The number of elements that share a scale.
inline constexpr int64_t kStateBlock = kMomentEncoding.block;
static_assert(kSecondMomentEncoding.block == kStateBlock);

// The attribute "first_element" of an update.
int64_t FirstElement(const graph::Attributes& attributes);

// The shape of the scales for a moment of this shape.
inline graph::Shape ScalesShape(const graph::Shape& shape) {
  return kMomentEncoding.ScalesType(shape).shape;
}

struct StoredWeight {
  graph::Value p = graph::kNoTensor;
  graph::Value master = graph::kNoTensor;
  bool RoundsStochastically(const graph::Builder& g) const;
};

struct StoredMoment {
  graph::Value values = graph::kNoTensor;
  graph::Value scales = graph::kNoTensor;  // the scales of u8 values
  bool RoundsStochastically(const graph::Builder& g) const;
};

// Inputs that all updates of a step share.
struct UpdateInputs {
  graph::Value lr = graph::kNoTensor;     // f32[]
  graph::Value clip = graph::kNoTensor;   // f32[], multiplies the gradient; absent: 1
  graph::Value apply = graph::kNoTensor;  // i32[]: 0 leaves all state unchanged, to the bit
  graph::Value rng = graph::kNoTensor;    // i32[2], needed for stochastic rounding
};

// count += 1, unless apply (i32[] or kNoTensor) is 0. count is a persistent i32[]: the number of
// the next update, starting at 1.
void Increment(graph::Builder& g, graph::Value count, graph::Value apply = graph::kNoTensor);

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  double lr_factor = 1;  // multiplies this parameter's learning rate
};

// Adam with decoupled weight decay, as torch.optim.AdamW computes it. Kingma, Ba, 2015, algorithm
// 1; Loshchilov, Hutter, 2019, algorithm 2. With t = count, lr times lr_factor, and g the gradient
// times clip:
//   p ← p · (1 − lr · weight_decay)
//   m ← m + (1 − β₁)(g − m),   v ← β₂ · v + (1 − β₂) · g²
//   p ← p − lr / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + eps)
// The step is taken with m and v before they are rounded for storage. Weight and moments are
// persistent; count i32[] ≥ 1.
//
// A node with the attribute "first_element", a multiple of kStateBlock, updates the elements of a
// parameter from that one on. They are rounded as in an update of the complete parameter. A value
// of 0 is not stored as an attribute.
void AdamW(graph::Builder& g, StoredWeight weight, graph::Value gradient, StoredMoment m,
           StoredMoment v, graph::Value count, const UpdateInputs& common,
           const AdamWOptions& options);

struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double lr_factor = 1;  // multiplies this parameter's learning rate
};

// Stochastic gradient descent, as torch.optim.SGD with dampening 0. With lr times lr_factor, and g
// the gradient times clip:
//   g ← g + weight_decay · p
//   buffer ← momentum · buffer + g;   g ← buffer, with nesterov g + momentum · buffer
//   p ← p − lr · g
// The weight is persistent. The momentum is persistent and starts at zero; if options.momentum is
// 0, it is {}.
void Sgd(graph::Builder& g, StoredWeight weight, graph::Value gradient, StoredMoment momentum,
         const UpdateInputs& common, const SgdOptions& options);

}  // namespace plimsoll::ops
