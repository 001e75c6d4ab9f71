// Any bytes either are a safetensors file with readable tensors, or raise a UserError.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/safetensors.h"

namespace {

using plimsoll::UserError;
using plimsoll::formats::SafetensorsReader;
using plimsoll::formats::TensorEntry;

void Require(bool condition) {
  if (!condition) __builtin_trap();
}

void CheckMessage(const UserError& error) {
  Require(std::string(error.what()).find('\n') == std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const SafetensorsReader reader(std::as_bytes(std::span(data, size)), "fuzz");
    size_t total = 0;
    for (const TensorEntry& tensor : reader.tensors()) {
      Require(reader.Find(tensor.name) == &tensor);
      size_t sum = 0;
      for (const std::byte byte : reader.Raw(tensor.name)) sum += std::to_integer<size_t>(byte);
      Require(sum <= 255 * size);
      total += static_cast<size_t>(tensor.bytes);
      std::vector<float> values(static_cast<size_t>(tensor.elements));
      try {
        reader.ReadFloat32(tensor.name, values.data(), tensor.elements);
      } catch (const UserError& error) {
        CheckMessage(error);  // integers
      }
    }
    Require(total <= size);
  } catch (const UserError& error) {
    CheckMessage(error);
  }
  return 0;
}
