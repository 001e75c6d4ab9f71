// The byte-level alphabet of GPT-2 (Radford et al. 2019, encoder.py): vocabulary files write every
// byte as one printable character, so that any byte string is a readable JSON string. Printable
// Latin-1 bytes stand for themselves, the other 68 for U+0100 and up, in order.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::data {

// The bytes that `token` stands for; nullopt if it has a character outside the alphabet.
std::optional<std::string> FromByteLevel(std::string_view token);

}  // namespace plimsoll::data
