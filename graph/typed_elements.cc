#include "graph/typed_elements.h"

#include <cstring>
#include <string>

#include "base/error.h"
#include "base/low_precision.h"

namespace plimsoll::graph {
namespace {

// Blocks of a fixed size become vectors.
template <typename Convert>
void ConvertBlocks(const uint16_t* from, int64_t count, float* __restrict to, Convert convert) {
  constexpr int64_t kBlock = 16;
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    for (int64_t j = 0; j < kBlock; ++j) to[i + j] = convert(from[i + j]);
  }
  for (; i < count; ++i) to[i] = convert(from[i]);
}

}  // namespace

void CopyAsFloat32(const TypedElements& elements, float* to) {
  const auto* const low = reinterpret_cast<const uint16_t*>(elements.data);
  switch (elements.dtype) {
    case DType::kFloat32:
      if (elements.count > 0) {
        std::memcpy(to, elements.data, static_cast<size_t>(elements.count) * sizeof(float));
      }
      return;
    case DType::kBFloat16:
      ConvertBlocks(low, elements.count, to, FromBf16);
      return;
    case DType::kFloat16:
      ConvertBlocks(low, elements.count, to, FromF16);
      return;
    default:
      throw InternalError(std::string(Name(elements.dtype)) + " elements are no weights");
  }
}

}  // namespace plimsoll::graph
