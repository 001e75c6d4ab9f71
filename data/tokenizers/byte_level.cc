#include "data/tokenizers/byte_level.h"

#include <array>
#include <cstdint>

namespace plimsoll::data {
namespace {

constexpr int kCharacters = 256 + 68;

// Code point -> byte, or -1.
std::array<int, kCharacters> MakeAlphabet() {
  std::array<int, kCharacters> bytes;
  bytes.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    bytes[printable ? byte : next++] = byte;
  }
  return bytes;
}

}  // namespace

std::optional<std::string> FromByteLevel(std::string_view token) {
  static const std::array<int, kCharacters> alphabet = MakeAlphabet();
  std::string bytes;
  for (size_t i = 0; i < token.size(); ++i) {
    int code = static_cast<uint8_t>(token[i]);
    if (code >= 0x80) {
      // The alphabet ends at U+0143: two bytes are the longest sequence.
      const bool two = code >= 0xc2 && code <= 0xdf && i + 1 < token.size() &&
                       (static_cast<uint8_t>(token[i + 1]) & 0xc0) == 0x80;
      if (!two) return std::nullopt;
      code = (code & 0x1f) << 6 | (static_cast<uint8_t>(token[++i]) & 0x3f);
    }
    if (code >= kCharacters || alphabet[code] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(alphabet[code]));
  }
  return bytes;
}

}  // namespace plimsoll::data
