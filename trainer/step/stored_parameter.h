// A parameter as the arena holds it. With low precision its float32 value may be spread over two
// tensors (names as optim/update.h gives them):
//
//   P f32                        the value itself
//   P bf16, P.remainder i16      bits = (P.bits << 16) + remainder; P is the value rounded to
//                                nearest, (bits + 0x8000) >> 16
//   P f16 or bf16, P.master f32  the master is the value, P its rounding to nearest
//   P f16 or bf16                the value rounded to nearest
#pragma once

#include <cstdint>
#include <span>

#include "graph/dtype.h"

namespace plimsoll::trainer {

class StoredParameter {
 public:
  // `remainder` and `master`: nullptr where there is none.
  StoredParameter(graph::DType dtype, int64_t elements, void* data, int16_t* remainder,
                  float* master)
      : dtype_(dtype), elements_(elements), data_(data), remainder_(remainder), master_(master) {}

  int64_t elements() const { return elements_; }

  // The float32 elements where they are stored, if the parameter is stored as float32 alone, so
  // that no other tensor must be updated with them; empty otherwise.
  std::span<float> InPlace() const;

  // Elements `begin` to `end`.
  StoredParameter Part(int64_t begin, int64_t end) const;

  // `values` has elements() elements.
  void Set(std::span<const float> values) const;
  void Get(std::span<float> values) const;

 private:
  graph::DType dtype_;
  int64_t elements_;
  void* data_;
  int16_t* remainder_;
  float* master_;
};

}  // namespace plimsoll::trainer
