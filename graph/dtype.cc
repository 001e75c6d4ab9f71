#include "graph/dtype.h"

#include <array>

namespace plimsoll::graph {
namespace {

struct Description {
  DType dtype;
  std::string_view name;
  int64_t bytes;
  bool is_float;
};

constexpr std::array<Description, 3> kDescriptions = {{
    {DType::kFloat32, "f32", 4, true},
    {DType::kFloat64, "f64", 8, true},
    {DType::kInt32, "i32", 4, false},
}};

const Description& Describe(DType dtype) { return kDescriptions[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view Name(DType dtype) { return Describe(dtype).name; }

std::optional<DType> ParseDType(std::string_view name) {
  for (const Description& d : kDescriptions) {
    if (d.name == name) return d.dtype;
  }
  return std::nullopt;
}

int64_t ByteSize(DType dtype) { return Describe(dtype).bytes; }
bool IsFloat(DType dtype) { return Describe(dtype).is_float; }

}  // namespace plimsoll::graph
