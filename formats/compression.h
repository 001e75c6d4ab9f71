// Compressed files, known by their first bytes whatever their name: gzip (RFC 1952), xz and
// Zstandard (RFC 8878). Several parts in a row, as `cat a.gz b.gz` makes, are one content.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/function_ref.h"

namespace plimsoll::formats {

enum class Compression { kNone, kGzip, kXz, kZstd };

Compression CompressionOf(std::span<const uint8_t> bytes);
// The same by the end of a file's name: .gz, .xz, .zst.
Compression CompressionByName(std::string_view path);
// `path` without such an end.
std::string_view WithoutCompression(std::string_view path);

// Hands on the content of `bytes`, whose compression is not kNone, piece by piece, and takes a
// buffer and what the format needs to look back on, at most 1 GiB. UserErrors name the file `name`:
// damaged, truncated, followed by something else, or made to need more memory.
void Decompress(std::span<const uint8_t> bytes, const std::string& name,
                FunctionRef<void(std::span<const uint8_t>)> write);

}  // namespace plimsoll::formats
