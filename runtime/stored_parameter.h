// A parameter as an arena holds it. With low precision, its float32 value may be spread over two
// tensors (named as in optim/update.h):
//
//   P f32                        the value itself
//   P bf16, P.remainder i16      the two parts of Split (base/low_precision.h)
//   P f16 or bf16, P.master f32  the master is the value, P its rounding to nearest
//   P f16 or bf16                the value rounded to nearest
//
// Addresses belong to the device that holds the parameter. Set, Draw and Get work on the CPU;
// cuda_stored_parameter.h does the same for GPUs, with the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/initial_draws.h"
#include "base/stripe.h"
#include "graph/dtype.h"
#include "graph/typed_elements.h"

namespace plimsoll::runtime {

// Elements of type float32, bf16 or f16.
using graph::TypedElements;

struct StoredParameter {
  graph::DType dtype = graph::DType::kFloat32;
  int64_t elements = 0;
  std::byte* data = nullptr;
  int16_t* remainder = nullptr;  // nullptr if no remainder exists or another rank holds it
  float* master = nullptr;       // nullptr if no master exists or another rank holds it
  // Whether any rank holds a remainder; `data` is then Split's upper half.
  bool has_remainder = false;

  // The float32 elements in place, if the parameter is stored as float32 alone, so that no other
  // tensor must be updated with them. Empty otherwise.
  std::span<float> InPlace() const;

  // The part of elements `begin` to `end`.
  StoredParameter Part(int64_t begin, int64_t end) const;

  // `values` must have the number of elements. In Set, their addresses may have any alignment.
  void Set(const TypedElements& values) const;
  void Get(std::span<float> values) const;
  // Sets element i to draw first + i.
  void Draw(const InitialDraws& draws, int64_t first) const;

 private:
  void SetLow(const float* values) const;
};

// The values of a parameter of type `dtype`, given the bytes of its tensors in host memory. A span
// is empty if the parameter has no such tensor.
std::vector<float> ValuesOf(graph::DType dtype, std::span<std::byte> data,
                            std::span<std::byte> remainder, std::span<std::byte> master);

// Throws InternalError unless `values` can be stored as these elements of `from`.
void CheckStore(const StoredParameter& to, const Stripe& from, const TypedElements& values);

}  // namespace plimsoll::runtime
