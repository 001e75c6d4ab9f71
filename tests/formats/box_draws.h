// Numbers and boxes within pictures, drawn one after the other, for tests.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "formats/raster.h"

namespace plimsoll::formats {

class BoxDraws {
 public:
  explicit BoxDraws(uint64_t seed) : seed_(seed) {}

  // From `least` to `most`.
  int64_t operator()(int64_t least, int64_t most) {
    return least +
           static_cast<int64_t>(Hash(seed_, count_++) % static_cast<uint64_t>(most - least + 1));
  }
  RasterBox Box(int64_t height, int64_t width) {
    const int64_t rows = (*this)(1, height), columns = (*this)(1, width);
    return {(*this)(0, height - rows), (*this)(0, width - columns), rows, columns};
  }

 private:
  uint64_t seed_, count_ = 0;
};

}  // namespace plimsoll::formats
