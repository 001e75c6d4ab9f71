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

constexpr std::array<Description, 9> kDescriptions = {{
    {DType::kFloat32, "f32", 4, true},
    {DType::kFloat64, "f64", 8, true},
    {DType::kInt32, "i32", 4, false},
    {DType::kBFloat16, "bf16", 2, true},
    {DType::kFloat16, "f16", 2, true},
    {DType::kInt16, "i16", 2, false},
    {DType::kUInt8, "u8", 1, false},
    {DType::kFloat8E4M3, "e4m3", 1, false},
    {DType::kFloat8E5M2, "e5m2", 1, false},
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
bool IsFloat8(DType dtype) { return dtype == DType::kFloat8E4M3 || dtype == DType::kFloat8E5M2; }
bool IsLowPrecision(DType dtype) { return dtype == DType::kBFloat16 || dtype == DType::kFloat16; }
DType ComputeType(DType dtype) { return IsLowPrecision(dtype) ? DType::kFloat32 : dtype; }

}  // namespace plimsoll::graph
