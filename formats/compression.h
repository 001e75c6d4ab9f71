// Compressed files, recognised by their first bytes whatever their name is: gzip (RFC 1952), xz and
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
// The compression that a file's extension names: .gz, .xz, .zst.
Compression CompressionByName(std::string_view path);
// `path` without the extension of a compression.
std::string_view WithoutCompression(std::string_view path);

// Decompresses `bytes`, whose compression is not kNone, and passes the content on piece by piece.
// Takes memory for a buffer and for the format's window of at most 1 GiB. A UserError names the
// file `name`: it is damaged, truncated, followed by other data, or requires more memory.
void Decompress(std::span<const uint8_t> bytes, const std::string& name,
                FunctionRef<void(std::span<const uint8_t>)> write);
// Returns the first `count` bytes of the content, or all of it if it is shorter. Decompresses no
// more than is needed for them. Throws the errors that Decompress throws for these bytes.
std::vector<uint8_t> DecompressStart(std::span<const uint8_t> bytes, const std::string& name,
                                     size_t count);

// The largest ratio of a gzip file's content to its size: a byte of deflate holds at most four
// matches, of two bits each, and a match expands to at most 258 bytes.
inline constexpr size_t kMostGzipGrowth = 1032;

// Compresses `bytes` with gzip, and passes the result on piece by piece. Equal bytes give equal
// files.
void CompressGzip(std::span<const uint8_t> bytes,
                  FunctionRef<void(std::span<const uint8_t>)> write);

}  // namespace plimsoll::formats
