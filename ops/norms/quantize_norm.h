// Fuses a norm with quantization to 8-bit codes: the norm's result is never stored.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace plimsoll::ops {

// The op `quantize_norm`, which a fusion emits (ops/fusions.h):
//
//   x [..., D], addend? as x, weight [D], bias? [D], expected f32[N] {of, eps, dtype, index}
//     → transposed?, codes?, scale?, largest? f32[], mean? [rows], rstd? [rows], sum? as x
//
// It computes the norm OF, with the addend if OF adds, and with a bias only if OF is a layer norm:
//
//   sum, y, mean, rstd = OF(x, addend, weight, bias) {eps}
//   largest = largest_magnitude(y)
//   transposed, codes, scale = quantize(y, largest, _, expected) {dtype, index}
//
// with the bits of these three ops. x is in 16 bits. Codes are e4m3, the type of all activations
// that layers in 8 bits read (e5m2 is for gradients only). Without an addend there is no sum; the
// mean of an RMS norm is 0. On a GPU there is one exception: if y isn't finite and a magnitude is
// expected, `codes` and `transposed` are those of the expected magnitude, because they are written
// before the last element is known. `scale` is NaN in that case, too, and so is every product.

// The values that `of` may have.
inline constexpr std::array<std::string_view, 4> kQuantizedNorms = {
    "rms_norm", "layer_norm", "add_rms_norm", "add_layer_norm"};

inline bool IsQuantizedNorm(std::string_view op) {
  return std::ranges::find(kQuantizedNorms, op) != kQuantizedNorms.end();
}

// Whether the norm `of` adds an addend to its input first.
inline bool NormAdds(std::string_view of) { return of.starts_with("add_"); }
// Whether the norm `of` subtracts the mean; such a norm may have a bias.
inline bool NormHasMean(std::string_view of) { return of.ends_with("layer_norm"); }

// The indices of the arguments.
namespace quantize_norm {
enum Input : size_t { kX, kAddend, kWeight, kBias, kExpected };
enum Output : size_t { kTransposed, kCodes, kScale, kLargest, kMean, kRstd, kSum };
}  // namespace quantize_norm

}  // namespace plimsoll::ops
