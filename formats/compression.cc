#include "formats/compression.h"

#include <fmt/format.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "base/error.h"

namespace plimsoll::formats {
namespace {

using Bytes = std::span<const uint8_t>;
using Write = FunctionRef<bool(Bytes)>;  // returns false when no more data is wanted

constexpr size_t kBuffer = size_t{256} << 10;
constexpr int kMaxWindowLog = 30;  // the largest window of a decoder: 1 GiB

struct Format {
  Compression compression;
  std::string_view ending;
  std::array<uint8_t, 6> magic;
  size_t magic_size;
};
constexpr std::array<Format, 4> kFormats = {
    {{Compression::kGzip, ".gz", {0x1f, 0x8b}, 2},
     {Compression::kXz, ".xz", {0xfd, '7', 'z', 'X', 'Z', 0}, 6},
     {Compression::kZstd, ".zst", {0x28, 0xb5, 0x2f, 0xfd}, 4},
     // pzstd's files begin with this magic number.
     {Compression::kZstd, ".zst", {0x50, 0x2a, 0x4d, 0x18}, 4}}};

[[noreturn]] void FailDamaged(const std::string& name, const std::string& reason) {
  throw UserError(
      fmt::format("{}: its compressed data are damaged ({}); copy the file again", name, reason));
}

[[noreturn]] void FailTruncated(const std::string& name) {
  throw UserError(name + ": truncated: its compressed data end too early; copy the file again");
}

[[noreturn]] void FailLarge(const std::string& name) {
  throw UserError(
      name +
      ": unpacking it needs more than 1 GiB of memory; unpack it yourself (xz -d, zstd -d "
      "--long=31), and name the result");
}

void Gunzip(Bytes bytes, const std::string& name, Write write) {
  std::vector<uint8_t> buffer(kBuffer);
  z_stream stream = {};
  constexpr int kWindowBits = 15, kGzipHeader = 16;
  if (inflateInit2(&stream, kWindowBits + kGzipHeader) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  while (true) {
    // zlib counts bytes in 32 bits, so longer input is passed in pieces.
    const auto given =
        static_cast<uInt>(std::min<size_t>(bytes.size(), std::numeric_limits<uInt>::max()));
    stream.next_in = const_cast<Bytef*>(bytes.data());
    stream.avail_in = given;
    stream.next_out = buffer.data();
    stream.avail_out = static_cast<uInt>(buffer.size());
    const int status = inflate(&stream, Z_NO_FLUSH);
    bytes = bytes.subspan(given - stream.avail_in);
    const size_t made = buffer.size() - stream.avail_out;
    if (made > 0 && !write({buffer.data(), made})) return;
    if (status == Z_BUF_ERROR || (status == Z_OK && bytes.empty() && made == 0)) {
      FailTruncated(name);
    }
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status != Z_OK && status != Z_STREAM_END) {
      FailDamaged(name, stream.msg == nullptr ? "no gzip data" : stream.msg);
    }
    if (status != Z_STREAM_END) continue;
    // Zeros after the end are allowed, since tape archives are padded with them.
    const auto next = std::ranges::find_if(bytes, [](uint8_t byte) { return byte != 0; });
    if (next == bytes.end()) return;
    if (CompressionOf(bytes) != Compression::kGzip) FailDamaged(name, "other data follow");
    inflateReset(&stream);
  }
}

void Unxz(Bytes bytes, const std::string& name, Write write) {
  std::vector<uint8_t> buffer(kBuffer);
  lzma_stream stream = LZMA_STREAM_INIT;
  constexpr uint64_t kState = uint64_t{16} << 20;  // a decoder's memory, in addition to its window
  if (lzma_stream_decoder(&stream, (uint64_t{1} << kMaxWindowLog) + kState, LZMA_CONCATENATED) !=
      LZMA_OK) {
    throw std::bad_alloc();
  }
  const std::unique_ptr<lzma_stream, void (*)(lzma_stream*)> end(&stream, lzma_end);
  stream.next_in = bytes.data();
  stream.avail_in = bytes.size();
  while (true) {
    stream.next_out = buffer.data();
    stream.avail_out = buffer.size();
    const lzma_ret status = lzma_code(&stream, LZMA_FINISH);
    const size_t made = buffer.size() - stream.avail_out;
    if (made > 0 && !write({buffer.data(), made})) return;
    switch (status) {
      case LZMA_OK:
        break;
      case LZMA_STREAM_END:
        return;
      case LZMA_BUF_ERROR:
        FailTruncated(name);
      case LZMA_MEMLIMIT_ERROR:
        FailLarge(name);
      case LZMA_MEM_ERROR:
        throw std::bad_alloc();
      case LZMA_FORMAT_ERROR:
        FailDamaged(name, "other data follow");
      case LZMA_OPTIONS_ERROR:
        FailDamaged(name, "it was made with filters that are not known");
      default:
        FailDamaged(name, "a checksum or length is wrong");
    }
  }
}

void Unzstd(Bytes bytes, const std::string& name, Write write) {
  std::vector<uint8_t> buffer(kBuffer);
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                   ZSTD_freeDCtx);
  if (context == nullptr) throw std::bad_alloc();
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
  while (true) {
    ZSTD_outBuffer out = {buffer.data(), buffer.size(), 0};
    const size_t status = ZSTD_decompressStream(context.get(), &out, &in);
    if (out.pos > 0 && !write({buffer.data(), out.pos})) return;
    if (ZSTD_isError(status)) {
      switch (ZSTD_getErrorCode(status)) {
        case ZSTD_error_frameParameter_windowTooLarge:
          FailLarge(name);
        case ZSTD_error_memory_allocation:
          throw std::bad_alloc();
        case ZSTD_error_prefix_unknown:
          FailDamaged(name, "other data follow");
        default:
          FailDamaged(name, ZSTD_getErrorName(status));
      }
    }
    // A status of 0 means that a frame has ended and all of its content was passed on.
    if (in.pos < in.size) continue;
    if (status == 0) return;
    if (out.pos < out.size) FailTruncated(name);
  }
}

void Unpack(Bytes bytes, const std::string& name, Write write) {
  switch (CompressionOf(bytes)) {
    case Compression::kGzip:
      return Gunzip(bytes, name, write);
    case Compression::kXz:
      return Unxz(bytes, name, write);
    case Compression::kZstd:
      return Unzstd(bytes, name, write);
    case Compression::kNone:
      throw InternalError(name + ": is not compressed");
  }
}

}  // namespace

Compression CompressionOf(Bytes bytes) {
  for (const Format& format : kFormats) {
    if (bytes.size() >= format.magic_size &&
        std::equal(bytes.begin(), bytes.begin() + format.magic_size, format.magic.begin())) {
      return format.compression;
    }
  }
  return Compression::kNone;
}

Compression CompressionByName(std::string_view path) {
  for (const Format& format : kFormats) {
    if (path.ends_with(format.ending)) return format.compression;
  }
  return Compression::kNone;
}

std::string_view WithoutCompression(std::string_view path) {
  for (const Format& format : kFormats) {
    if (path.ends_with(format.ending)) path.remove_suffix(format.ending.size());
  }
  return path;
}

void Decompress(Bytes bytes, const std::string& name, FunctionRef<void(Bytes)> write) {
  Unpack(bytes, name, [&](Bytes piece) {
    write(piece);
    return true;
  });
}

std::vector<uint8_t> DecompressStart(Bytes bytes, const std::string& name, size_t count) {
  std::vector<uint8_t> start;
  Unpack(bytes, name, [&](Bytes piece) {
    const Bytes wanted = piece.first(std::min(piece.size(), count - start.size()));
    start.insert(start.end(), wanted.begin(), wanted.end());
    return start.size() < count;
  });
  return start;
}

void CompressGzip(Bytes bytes, FunctionRef<void(Bytes)> write) {
  std::vector<uint8_t> buffer(kBuffer);
  z_stream stream = {};
  constexpr int kWindowBits = 15, kGzipHeader = 16, kMemory = 8;
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kWindowBits + kGzipHeader, kMemory,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, deflateEnd);
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    // zlib counts bytes in 32 bits, so longer input is passed in pieces.
    const auto given =
        static_cast<uInt>(std::min<size_t>(bytes.size(), std::numeric_limits<uInt>::max()));
    stream.next_in = const_cast<Bytef*>(bytes.data());
    stream.avail_in = given;
    stream.next_out = buffer.data();
    stream.avail_out = static_cast<uInt>(buffer.size());
    // Z_FINISH may be given only once all remaining input fits into the 32-bit count.
    status = deflate(&stream, given == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    bytes = bytes.subspan(given - stream.avail_in);
    write({buffer.data(), buffer.size() - stream.avail_out});
  }
}

}  // namespace plimsoll::formats
