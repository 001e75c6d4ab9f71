// Element types of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll::graph {

enum class DType : uint8_t { kFloat32, kFloat64, kInt32 };

// "f32", "f64", "i32": the names of the text form.
std::string_view Name(DType dtype);
std::optional<DType> ParseDType(std::string_view name);

// Bytes per element.
int64_t ByteSize(DType dtype);
bool IsFloat(DType dtype);

}  // namespace plimsoll::graph
