#include "formats/jpeg.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <utility>

// libjpeg's headers need <cstdio> and are therefore included after it.
#include <jerror.h>
#include <jpeglib.h>

#include "base/error.h"
#include "formats/exif.h"

namespace plimsoll::formats {
namespace {

constexpr int kMostScans = 500;  // each scan takes as much time as decoding a picture
// Longest side of a block in pixels: 4 × 4 blocks of 8 × 8 samples.
constexpr int64_t kMostBlock = 32;
constexpr int64_t kMargin = 2;  // columns: one subsampled chroma sample, which upsampling blends
constexpr int kSmoothed = 10;   // the number of low frequencies that libjpeg smooths
constexpr int64_t kRowsAtOnce = 8;
// Memory of libjpeg in addition to a progressive file's coefficients.
constexpr int64_t kSpareMemory = 4 << 20;

// libjpeg reports an error by calling a function that must not return, so errors end in a longjmp.
struct ErrorManager {
  jpeg_error_mgr base;  // must be the first member: libjpeg only knows this part
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> message;
  bool damaged = false;  // pixels were lost, although libjpeg would continue
};

ErrorManager& ErrorsOf(j_common_ptr codec) { return *reinterpret_cast<ErrorManager*>(codec->err); }

[[noreturn]] void Leave(j_common_ptr codec) {
  ErrorManager& errors = ErrorsOf(codec);
  errors.base.format_message(codec, errors.message.data());
  std::longjmp(errors.jump, 1);
}

// Warnings are errors, except those that affect no pixels, for example about bytes between
// segments.
void TakeMessage(j_common_ptr codec, int level) {
  if (level >= 0) return;
  switch (codec->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_ICC:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:
    case JWRN_TOO_MUCH_DATA:
      return;
    default:
      ErrorsOf(codec).damaged = true;
      Leave(codec);
  }
}

void LimitScans(j_common_ptr codec) {
  if (codec->is_decompressor == FALSE) return;
  if (reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number <= kMostScans) return;
  ErrorManager& errors = ErrorsOf(codec);
  std::snprintf(errors.message.data(), errors.message.size(), "it has more than %d scans",
                kMostScans);
  std::longjmp(errors.jump, 1);
}

void Prepare(ErrorManager& errors) {
  jpeg_std_error(&errors.base);
  errors.base.error_exit = &Leave;
  errors.base.emit_message = &TakeMessage;
  errors.message.fill(0);
}

// Runs `work`; returns false if libjpeg gave up. Neither `work` nor what it calls may have an
// object with a destructor, because longjmp skips destructors.
template <typename Work>
bool Finishes(ErrorManager& errors, const Work& work) {
  if (setjmp(errors.jump) != 0) return false;
  work();
  return true;
}

class JpegReader {
 public:
  explicit JpegReader(const std::string& name) : name_(name) {
    codec_.err = &errors_.base;
    Prepare(errors_);
    progress_.progress_monitor = &LimitScans;
  }
  ~JpegReader() { jpeg_destroy_decompress(&codec_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  RasterPart Read(std::span<const uint8_t> bytes, int64_t most_pixels,
                  FunctionRef<RasterRequest(const RasterHeader&)> choose) {
    ReadHeader(bytes, most_pixels);
    const int orientation = Orientation();  // read now, since the end of decoding frees the markers
    const bool transposed = orientation >= 5;
    const int64_t height = codec_.image_height, width = codec_.image_width;
    const RasterRequest request =
        choose({transposed ? width : height, transposed ? height : width, true});
    Start(request);
    const int64_t rows = codec_.output_height, columns = codec_.output_width;
    const RasterBox asked =
        OrientedBox(request.box, transposed ? columns : rows, transposed ? rows : columns,
                    InverseOrientation(orientation));
    RequireInside(asked, rows, columns);
    RasterPart part = ReadRows(Smooths() ? RasterBox{0, 0, rows, columns} : asked, request.exact);
    part.box = OrientedBox(part.box, rows, columns, orientation);
    part.raster = Oriented(std::move(part.raster), orientation);
    return part;
  }

 private:
  template <typename Work>
  void Require(const Work& work) {
    if (Finishes(errors_, work)) return;
    throw UserError(std::string(name_) + ": " +
                    (errors_.damaged ? "is truncated or damaged: " : "cannot be read: ") +
                    errors_.message.data() + "; copy the file again, or convert it");
  }

  void ReadHeader(std::span<const uint8_t> bytes, int64_t most_pixels) {
    Require([&] {
      jpeg_create_decompress(&codec_);
      codec_.progress = &progress_;
      jpeg_mem_src(&codec_, bytes.data(), static_cast<unsigned long>(bytes.size()));
      jpeg_save_markers(&codec_, JPEG_APP0 + 1, 0xffff);
      jpeg_read_header(&codec_, TRUE);
    });
    const int64_t height = codec_.image_height, width = codec_.image_width;
    RequireRasterSize(name_, height, width, most_pixels);
    const bool four = codec_.num_components == 4, grey = codec_.num_components == 1;
    if (!four && codec_.num_components != 3 && !grey) {
      throw UserError(name_ + ": has neither 1, 3 nor 4 channels; convert it");
    }
    codec_.out_color_space = four ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
    codec_.dct_method = JDCT_ISLOW;
    codec_.mem->max_memory_to_use =
        static_cast<long>((height + kMostBlock) * (width + kMostBlock) * codec_.num_components *
                              static_cast<int64_t>(sizeof(JCOEF)) +
                          kSpareMemory);
  }

  void Start(const RasterRequest& request) {
    codec_.scale_num = 1;
    codec_.scale_denom = static_cast<unsigned>(request.shrink);
    codec_.do_fancy_upsampling = request.exact ? TRUE : FALSE;
    Require([&] { jpeg_start_decompress(&codec_); });
  }

  static void RequireInside(const RasterBox& box, int64_t rows, int64_t columns) {
    if (box.top >= 0 && box.left >= 0 && box.height >= 1 && box.width >= 1 &&
        box.top + box.height <= rows && box.left + box.width <= columns) {
      return;
    }
    throw InternalError("a box that is not inside its picture");
  }

  // True for a progressive file whose low-frequency coefficients are not complete. libjpeg
  // estimates them from neighbouring blocks, which may be outside the part that is decoded.
  bool Smooths() const {
    if (codec_.progressive_mode == FALSE || codec_.coef_bits == nullptr) return false;
    for (int component = 0; component < codec_.num_components; ++component) {
      const int* const bits = codec_.coef_bits[component];
      if (std::any_of(bits + 1, bits + kSmoothed, [](int left) { return left != 0; })) return true;
    }
    return false;
  }

  // Decodes the rows of the box, and at least its columns.
  RasterPart ReadRows(const RasterBox& box, bool exact) {
    const int64_t rows = codec_.output_height, columns = codec_.output_width;
    const int64_t margin = exact ? kMargin : 0, bottom = box.top + box.height;
    const int64_t left = std::max<int64_t>(0, box.left - margin);
    auto first = static_cast<JDIMENSION>(left);
    auto count = static_cast<JDIMENSION>(std::min(columns, box.left + box.width + margin) - left);
    if (bottom < rows && jpeg_has_multiple_scans(&codec_) == FALSE) RequireEnd();
    Require([&] {
      // libjpeg moves the first column to the left, to the beginning of a block.
      if (count < columns) jpeg_crop_scanline(&codec_, &first, &count);
      if (box.top > 0) jpeg_skip_scanlines(&codec_, static_cast<JDIMENSION>(box.top));
    });
    RasterPart part = {.box = {box.top, first, box.height, count}, .raster = {}};
    const int64_t row_bytes = int64_t{count} * codec_.output_components;
    part.raster = {.height = box.height,
                   .width = count,
                   .channels = codec_.output_components == 1 ? 1 : 3,
                   .pixels = std::vector<uint8_t>(static_cast<size_t>(box.height * row_bytes))};
    uint8_t* const pixels = part.raster.pixels.data();
    Require([&] {
      while (codec_.output_scanline < bottom) {
        const int64_t at = codec_.output_scanline - box.top;
        JSAMPROW some[kRowsAtOnce];
        const int64_t most = std::min(kRowsAtOnce, box.height - at);
        for (int64_t i = 0; i < most; ++i) some[i] = pixels + (at + i) * row_bytes;
        jpeg_read_scanlines(&codec_, some, static_cast<JDIMENSION>(most));
      }
      if (bottom == rows) jpeg_finish_decompress(&codec_);
    });
    if (codec_.out_color_space == JCS_CMYK) FromInvertedCmyk(part.raster.pixels);
    return part;
  }

  // Throws a UserError unless the rest of the file has the end marker, which cannot occur in pixel
  // data.
  void RequireEnd() const {
    const std::span<const uint8_t> rest(codec_.src->next_input_byte, codec_.src->bytes_in_buffer);
    constexpr std::array<uint8_t, 2> kEnd = {0xff, JPEG_EOI};
    if (std::find_end(rest.begin(), rest.end(), kEnd.begin(), kEnd.end()) != rest.end()) return;
    throw UserError(name_ +
                    ": is truncated or damaged: its end is missing; copy the file again, or "
                    "convert it");
  }

  int Orientation() const {
    for (auto marker = codec_.marker_list; marker != nullptr; marker = marker->next) {
      if (marker->marker != JPEG_APP0 + 1) continue;
      const int found = App1Orientation({marker->data, marker->data_length});
      if (found != 1) return found;
    }
    return 1;
  }

  // Pillow's cmyk2rgb for bytes that are inverted by Adobe's convention. Works in place: 4 bytes
  // become 3.
  static void FromInvertedCmyk(std::vector<uint8_t>& pixels) {
    uint8_t* to = pixels.data();
    for (size_t i = 0; i < pixels.size(); i += 4) {
      const int white = pixels[i + 3];  // 255 − black
      for (size_t c = 0; c < 3; ++c) {
        const int product = (255 - pixels[i + c]) * white + 128;
        *to++ = static_cast<uint8_t>(white - (((product >> 8) + product) >> 8));
      }
    }
    pixels.resize(pixels.size() / 4 * 3);
  }

  const std::string& name_;
  jpeg_decompress_struct codec_ = {};
  ErrorManager errors_ = {};
  jpeg_progress_mgr progress_ = {};
};

class JpegWriter {
 public:
  JpegWriter() {
    codec_.err = &errors_.base;
    Prepare(errors_);
  }
  ~JpegWriter() {
    jpeg_destroy_compress(&codec_);
    std::free(buffer_);
  }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  std::vector<uint8_t> Write(int64_t height, int64_t width, int channels, const uint8_t* pixels,
                             int quality) {
    Require([&] {
      jpeg_create_compress(&codec_);
      jpeg_mem_dest(&codec_, &buffer_, &size_);
      codec_.image_height = static_cast<JDIMENSION>(height);
      codec_.image_width = static_cast<JDIMENSION>(width);
      codec_.input_components = channels;
      codec_.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
      jpeg_set_defaults(&codec_);
      jpeg_set_quality(&codec_, quality, TRUE);
      jpeg_start_compress(&codec_, TRUE);
      while (codec_.next_scanline < codec_.image_height) {
        auto* row = const_cast<JSAMPROW>(pixels + codec_.next_scanline * width * channels);
        jpeg_write_scanlines(&codec_, &row, 1);
      }
      jpeg_finish_compress(&codec_);
    });
    return {buffer_, buffer_ + size_};
  }

 private:
  template <typename Work>
  void Require(const Work& work) {
    if (Finishes(errors_, work)) return;
    throw InternalError(std::string("libjpeg does not write a picture: ") + errors_.message.data());
  }

  jpeg_compress_struct codec_ = {};
  ErrorManager errors_ = {};
  unsigned char* buffer_ = nullptr;
  unsigned long size_ = 0;
};

}  // namespace

Raster DecodeJpeg(std::span<const uint8_t> bytes, const std::string& name, int64_t most_pixels) {
  return DecodeJpegPart(bytes, name, most_pixels, &WholeOf).raster;
}

RasterPart DecodeJpegPart(std::span<const uint8_t> bytes, const std::string& name,
                          int64_t most_pixels,
                          FunctionRef<RasterRequest(const RasterHeader&)> choose) {
  if (bytes.empty()) throw UserError(name + ": is empty; copy the file again");
  return JpegReader(name).Read(bytes, most_pixels, choose);
}

std::vector<uint8_t> EncodeJpeg(int64_t height, int64_t width, std::span<const uint8_t> pixels,
                                int quality) {
  const int64_t count = height * width;
  if (height < 1 || width < 1 || height > kMostRasterSide || width > kMostRasterSide ||
      (std::ssize(pixels) != count && std::ssize(pixels) != 3 * count)) {
    throw InternalError("a picture of another size than its pixels");
  }
  return JpegWriter().Write(height, width, static_cast<int>(std::ssize(pixels) / count),
                            pixels.data(), quality);
}

}  // namespace plimsoll::formats
