// A parameter as an arena holds it. With low precision its float32 value may be spread over two
// tensors (names as optim/update.h gives them):
//
//   P f32                        the value itself
//   P bf16, P.remainder i16      the two parts of Split (base/low_precision.h)
//   P f16 or bf16, P.master f32  the master is the value, P its rounding to nearest
//   P f16 or bf16                the value rounded to nearest
//
// Addresses are those of the device that holds it. What Set, Draw and Get do here for the CPU,
// cuda_stored_parameter.h does for GPUs, with the same bits.
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

// Of float32, bf16 or f16.
using graph::TypedElements;

struct StoredParameter {
  graph::DType dtype = graph::DType::kFloat32;
  int64_t elements = 0;
  std::byte* data = nullptr;
  int16_t* remainder = nullptr;  // nullptr: there is none, or it lies on another rank
  float* master = nullptr;       // the same
  bool has_remainder = false;    // here or there: then `data` is Split's upper half

  // The float32 elements where they are stored, if the parameter is stored as float32 alone, so
  // that no other tensor must be updated with them; empty otherwise.
  std::span<float> InPlace() const;

  // Elements `begin` to `end`.
  StoredParameter Part(int64_t begin, int64_t end) const;

  // There are as many values as elements. In Set, their addresses may have any alignment.
  void Set(const TypedElements& values) const;
  void Get(std::span<float> values) const;
  // Element i becomes draw first + i.
  void Draw(const InitialDraws& draws, int64_t first) const;

 private:
  void SetLow(const float* values) const;
};

// The values of a parameter of that type, given the bytes of its tensors in the memory of the host;
// of one that it has not, none.
std::vector<float> ValuesOf(graph::DType dtype, std::span<std::byte> data,
                            std::span<std::byte> remainder, std::span<std::byte> master);

// InternalError unless these elements can become those of the values.
void CheckStore(const StoredParameter& to, const Stripe& from, const TypedElements& values);

}  // namespace plimsoll::runtime
