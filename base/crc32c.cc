#include "base/crc32c.h"

#include <nmmintrin.h>

#include <cstring>

namespace plimsoll {

// Uses the processor's instruction, 8 bytes every 3 cycles: faster than any disk, so interleaving
// several streams isn't needed.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t before) {
  uint64_t crc = ~before;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    crc = _mm_crc32_u64(crc, word);
  }
  auto last = static_cast<uint32_t>(crc);
  for (; left > 0; ++at, --left) last = _mm_crc32_u8(last, std::to_integer<uint8_t>(*at));
  return ~last;
}

uint32_t Crc32c(std::string_view text, uint32_t before) {
  return Crc32c(std::as_bytes(std::span(text)), before);
}

}  // namespace plimsoll
