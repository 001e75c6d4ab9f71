// Base64, the encoding of bytes as text: RFC 4648, section 4.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace plimsoll::formats {

std::string Base64(std::span<const uint8_t> bytes);

}  // namespace plimsoll::formats
