#include "formats/png.h"

#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "formats/exif.h"

namespace plimsoll::formats {
namespace {

constexpr std::array<uint8_t, 8> kSignature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr uint8_t kBits = 8, kGrey = 0, kRgb = 2;  // bits of a sample; PNG's colour types

void AppendNumber(std::vector<uint8_t>& file, size_t number) {
  for (const int shift : {24, 16, 8, 0}) file.push_back(static_cast<uint8_t>(number >> shift));
}

// A chunk is its length, type, content and the checksum of type and content.
void AppendChunk(std::vector<uint8_t>& file, std::string_view type,
                 std::span<const uint8_t> content) {
  AppendNumber(file, content.size());
  const size_t checked = file.size();
  file.insert(file.end(), type.begin(), type.end());
  file.insert(file.end(), content.begin(), content.end());
  AppendNumber(file, crc32(0, file.data() + checked, static_cast<uInt>(file.size() - checked)));
}

constexpr int64_t kMostInflated = 1032;          // deflate's largest expansion of a byte
constexpr size_t kChunkHead = 8, kChecksum = 4;  // sizes in bytes

// The unread rest of the file, and libpng's error message.
struct Reading {
  std::span<const uint8_t> rest;
  std::array<char, 160> message;
};

void ReadBytes(png_structp png, png_bytep to, size_t count) {
  auto& reading = *static_cast<Reading*>(png_get_io_ptr(png));
  if (count > reading.rest.size()) png_error(png, "its end is missing");
  for (size_t i = 0; i < count; ++i) to[i] = reading.rest[i];
  reading.rest = reading.rest.subspan(count);
}

[[noreturn]] void Leave(png_structp png, png_const_charp message) {
  auto& reading = *static_cast<Reading*>(png_get_error_ptr(png));
  std::snprintf(reading.message.data(), reading.message.size(), "%s", message);
  png_longjmp(png, 1);
}

// The orientation in the chunk eXIf, wherever in the file it is. A chunk is its length, type,
// content and checksum.
int OrientationOf(std::span<const uint8_t> file) {
  std::span<const uint8_t> rest = file.subspan(std::min(kSignature.size(), file.size()));
  while (rest.size() >= kChunkHead) {
    const size_t length = png_get_uint_32(rest.data());
    const bool exif = std::ranges::equal(rest.subspan(4, 4), std::string_view("eXIf"));
    rest = rest.subspan(kChunkHead);
    if (length > rest.size()) break;
    if (exif) return ExifOrientation(rest.first(length));
    rest = rest.subspan(std::min(length + kChecksum, rest.size()));
  }
  return 1;
}

void PassOver(png_structp /*png*/, png_const_charp /*message*/) {}

class PngReader {
 public:
  PngReader(std::span<const uint8_t> bytes, const std::string& name)
      : name_(name), file_(bytes), reading_{.rest = bytes, .message = {}} {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading_, &Leave, &PassOver);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  Raster Read(int64_t most_pixels) {
    if (info_ == nullptr) throw InternalError("libpng does not start");
    Require([&] {
      png_set_read_fn(png_, &reading_, &ReadBytes);
      png_set_user_limits(png_, kMostRasterSide, kMostRasterSide);
      // Chunks with texts, profiles and the like are skipped, since libpng would allocate the
      // memory that they announce.
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
      png_read_info(png_, info_);
    });
    Raster raster = {.height = png_get_image_height(png_, info_),
                     .width = png_get_image_width(png_, info_),
                     .pixels = {}};
    RequireRasterSize(name_, raster.height, raster.width, most_pixels);
    RequireHeld(raster);
    Require([&] { Convert(); });
    raster.channels = png_get_channels(png_, info_);
    if (png_get_bit_depth(png_, info_) != 8 || (raster.channels != 1 && raster.channels != 3)) {
      throw InternalError(name_ + ": libpng gives other pixels than it was asked for");
    }
    const auto row_bytes = static_cast<size_t>(raster.width * raster.channels);
    raster.pixels.resize(row_bytes * static_cast<size_t>(raster.height));
    std::vector<png_bytep> rows;
    for (int64_t y = 0; y < raster.height; ++y) {
      rows.push_back(raster.pixels.data() + static_cast<size_t>(y) * row_bytes);
    }
    png_bytepp const first = rows.data();
    Require([&] {
      png_read_image(png_, first);
      png_read_end(png_, info_);
    });
    return Oriented(std::move(raster), OrientationOf(file_));
  }

 private:
  // Runs `work`; throws a UserError if libpng gives up. Neither `work` nor what it calls may have
  // an object with a destructor, because longjmp skips destructors.
  template <typename Work>
  void Require(const Work& work) {
    if (!Finishes(work)) {
      throw UserError(std::string(name_) + ": is a truncated or damaged PNG file: " +
                      reading_.message.data() + "; copy the file again, or convert it");
    }
  }
  template <typename Work>
  bool Finishes(const Work& work) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    work();
    return true;
  }

  // Refuses a short file that announces many pixels, before memory is allocated.
  void RequireHeld(const Raster& raster) const {
    const int64_t row_bits =
        raster.width * png_get_channels(png_, info_) * png_get_bit_depth(png_, info_);
    if (row_bits / 8 * raster.height <= kMostInflated * std::ssize(file_)) return;
    throw UserError(std::string(name_) +
                    ": is truncated: its header announces more pixels than its bytes can hold; "
                    "copy the file again");
  }

  void Convert() {
    if (png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (png_get_color_type(png_, info_) == PNG_COLOR_TYPE_GRAY) {
      png_set_expand_gray_1_2_4_to_8(png_);
    }
    png_set_strip_16(png_);
    png_set_strip_alpha(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
  }

  const std::string& name_;
  std::span<const uint8_t> file_;
  Reading reading_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

std::vector<uint8_t> EncodePng(int64_t width, int64_t height, std::span<const uint8_t> pixels) {
  const bool grey = std::ssize(pixels) == width * height;
  const auto row_bytes = static_cast<size_t>((grey ? 1 : 3) * width);
  if (width < 1 || height < 1 || pixels.size() != row_bytes * static_cast<size_t>(height)) {
    throw InternalError("a picture of another size than its pixels");
  }
  // Each row begins with the number of its filter; 0 means no filter.
  std::vector<uint8_t> rows;
  for (size_t begin = 0; begin < pixels.size(); begin += row_bytes) {
    rows.push_back(0);
    rows.insert(rows.end(), pixels.begin() + static_cast<ptrdiff_t>(begin),
                pixels.begin() + static_cast<ptrdiff_t>(begin + row_bytes));
  }
  uLongf size = compressBound(rows.size());
  std::vector<uint8_t> compressed(size);
  if (compress(compressed.data(), &size, rows.data(), rows.size()) != Z_OK) {
    throw InternalError("zlib does not compress a picture");
  }
  compressed.resize(size);

  std::vector<uint8_t> header;
  AppendNumber(header, static_cast<size_t>(width));
  AppendNumber(header, static_cast<size_t>(height));
  // The last three bytes: deflate, filters for each row, not interlaced.
  header.insert(header.end(), {kBits, grey ? kGrey : kRgb, 0, 0, 0});
  std::vector<uint8_t> file(kSignature.begin(), kSignature.end());
  AppendChunk(file, "IHDR", header);
  AppendChunk(file, "IDAT", compressed);
  AppendChunk(file, "IEND", {});
  return file;
}

Raster DecodePng(std::span<const uint8_t> bytes, const std::string& name, int64_t most_pixels) {
  return PngReader(bytes, name).Read(most_pixels);
}

}  // namespace plimsoll::formats
