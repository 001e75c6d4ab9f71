// Transposes the 8-bit codes of a weight. Ranks gather only the codes themselves
// (parallel/gather_codes.h), and make the transposed codes from them.
#pragma once

namespace plimsoll::ops {

// The op `transpose_codes`, which passes emit:
//
//   codes [..., K], e4m3 or e5m2, of T rows → transposed [K, T16]
//
// Rows of the result are padded with zeros to a multiple of 16 (TransposedRow): the bits of the
// transposed codes that the op `quantize` makes of the same tensor (ops/linear/quantize.h).

}  // namespace plimsoll::ops
