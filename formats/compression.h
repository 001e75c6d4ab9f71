// Compressed files, recognised by their first bytes whatever their name: gzip (RFC 1952), xz and
// Zstandard (RFC 8878). Several concatenated parts, as from `cat a.gz b.gz`, are one content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"

namespace plimsoll::formats {

enum class Compression { kNone, kGzip, kXz, kZstd };

Compression CompressionOf(std::span<const uint8_t> bytes);
// The compression according to the end of a file's name: .gz, .xz, .zst.
Compression CompressionByName(std::string_view path);
// `path` without such an ending.
std::string_view WithoutCompression(std::string_view path);

// Passes on the content of `bytes`, whose compression is not kNone, piece by piece. Needs a buffer
// and the format's window of at most 1 GiB. Throws UserErrors with the file `name`: damaged,
// truncated, followed by other data, or requiring more memory.
void Decompress(std::span<const uint8_t> bytes, const std::string& name,
                FunctionRef<void(std::span<const uint8_t>)> write);
// The first `count` bytes of that content, or all of it if it has fewer; no more is unpacked than
// that takes. Throws what Decompress throws for these bytes.
std::vector<uint8_t> DecompressStart(std::span<const uint8_t> bytes, const std::string& name,
                                     size_t count);

// No gzip file has more content than this times its bytes: a byte of deflate holds at most four
// matches, of two bits each, and a match at most 258 bytes.
inline constexpr size_t kMostGzipGrowth = 1032;

// Passes on `bytes` compressed with gzip, piece by piece; equal bytes give equal files.
void CompressGzip(std::span<const uint8_t> bytes,
                  FunctionRef<void(std::span<const uint8_t>)> write);

}  // namespace plimsoll::formats
