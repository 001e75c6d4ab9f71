// Rates that were measured on one device, by kind of call. A call takes
//   start + FLOPs / rate of FLOPs + bytes / bandwidth
// seconds. The terms are added, rather than their maximum taken, because measured calls that are
// small or narrow take more time per FLOP than large ones.
#pragma once

#include <compare>
#include <span>
#include <string_view>

#include "graph/op.h"
#include "graph/traits.h"

namespace plimsoll::memory {

// The properties of a call that determine its speed, other than its amount of work.
struct RateKind {
  std::string_view op;
  // The type of the arithmetic: "fp32", "tf32", "half" (bf16 and fp16) or "fp8".
  std::string_view numbers;
  // The form of the call. Of convolutions: "image", "volume 1 strided", "image of few channels",
  // where 1 means a kernel of one tap. Of attention: "heads of 64 causal". Of other matrix
  // products: "large" if the power limit slows a GPU, else "small"; linear_dw and the loss also
  // have "small with bias". Of all other calls: empty.
  std::string_view form;

  auto operator<=>(const RateKind&) const = default;
};

RateKind RateKindOf(const graph::OpCall& call);

// The FLOPs and bytes that kernels really need for a call. Matrix units compute complete tiles, so
// channels of convolutions and tokens of attention are rounded up. Each query head reads its keys
// and values, even if several heads share them.
graph::Cost KernelWork(const graph::OpCall& call);

// A row of a table of rates. A row with an empty form is for all forms of the op.
struct MeasuredRate {
  RateKind kind;
  double start;  // in seconds
  double flops;  // FLOP/s; infinite if the op's FLOPs cost no time
  double bytes;  // bytes per second; infinite if the op's bytes cost no time
};

// Finds the rate for calls of a kind in a table that is sorted by kind. Returns the row of the kind
// or, without such a row, the row for all forms of the op with the same numbers. An op whose time
// is bound by bytes (kBandwidth) can also take the op's first row, which may be for other numbers.
// Returns nullptr if the table has none of these rows.
const MeasuredRate* FindRate(std::span<const MeasuredRate> table, const RateKind& kind,
                             graph::CostClass cost_class);

}  // namespace plimsoll::memory
