#include "formats/base64.h"

#include <cstddef>

namespace plimsoll::formats {

std::string Base64(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k) {
      three = three << 8 | (i + k < bytes.size() ? bytes[i + k] : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      const bool pads = i + k > bytes.size();
      text += pads ? '=' : kDigits[three >> (18 - 6 * k) & 63u];
    }
  }
  return text;
}

}  // namespace plimsoll::formats
