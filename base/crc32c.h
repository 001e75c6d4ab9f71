// CRC-32C (Castagnoli), as iSCSI defines it: RFC 3720, appendix B.4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace plimsoll {

// The checksum of `bytes`. `before` is the checksum of preceding bytes; the result then covers
// both.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t before = 0);
uint32_t Crc32c(std::string_view text, uint32_t before = 0);

// The checksum of two sequences of bytes one after the other, computed from the checksum of each.
// The second sequence has `bytes` bytes.
uint32_t CombineCrc32c(uint32_t first, uint32_t second, uint64_t bytes);

}  // namespace plimsoll
