#include "tests/formats/jpeg_kinds.h"

#include <array>
#include <cstdio>
#include <cstdlib>

// Below <cstdio>, which it needs.
#include <jpeglib.h>

#include "base/random.h"

namespace plimsoll::formats {
namespace {

constexpr int kQuality = 90, kCoarseBits = 2, kLastFrequency = 63;

std::vector<uint8_t> PixelsOf(const JpegKind& kind, int64_t height, int64_t width, uint64_t seed) {
  std::vector<uint8_t> pixels;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < kind.components; ++c) {
        const uint64_t noise = Hash(seed, pixels.size()) % 60;
        const auto slope = static_cast<uint64_t>((7 * x + 3 * y) * (1 + c) / 3);
        pixels.push_back(static_cast<uint8_t>(slope + noise));
      }
    }
  }
  return pixels;
}

// The scans of `kind`, if they are not libjpeg's own.
std::vector<jpeg_scan_info> ScansOf(const JpegKind& kind) {
  std::vector<jpeg_scan_info> scans;
  const auto of_component = [&](int component, int first) {
    return jpeg_scan_info{.comps_in_scan = 1,
                          .component_index = {component},
                          .Ss = first,
                          .Se = kLastFrequency,
                          .Ah = 0,
                          .Al = kind.coarse ? kCoarseBits : 0};
  };
  if (kind.coarse) {
    jpeg_scan_info means = {};
    means.comps_in_scan = kind.components;
    for (int i = 0; i < kind.components; ++i) means.component_index[i] = i;
    scans.push_back(means);
  }
  for (int i = 0; i < kind.components; ++i) scans.push_back(of_component(i, kind.coarse ? 1 : 0));
  return scans;
}

void WriteOrientation(jpeg_compress_struct& codec, int orientation) {
  const std::array<uint8_t, 32> exif = {'E', 'x',  'i', 'f', 0,
                                        0,   'I',  'I', 42,  0,
                                        8,   0,    0,   0,   1,
                                        0,   0x12, 1,   3,   0,
                                        1,   0,    0,   0,   static_cast<uint8_t>(orientation)};
  jpeg_write_marker(&codec, JPEG_APP0 + 1, exif.data(), static_cast<unsigned>(exif.size()));
}

}  // namespace

std::vector<JpegKind> JpegKinds() {
  return {{.name = "4:4:4"},
          {.name = "4:2:2", .across = 2},
          {.name = "4:2:0", .across = 2, .down = 2},
          {.name = "4:4:0", .down = 2},
          {.name = "4:1:1", .across = 4},
          {.name = "4:1:0", .across = 4, .down = 2},
          {.name = "2 × 4", .across = 2, .down = 4},
          {.name = "grey", .components = 1},
          {.name = "grey, sampled", .components = 1, .across = 2, .down = 2},
          {.name = "YCCK", .components = 4},
          {.name = "YCCK 4:2:0", .components = 4, .across = 2, .down = 2},
          {.name = "restarts", .across = 2, .down = 2, .restart_interval = 3},
          {.name = "separate", .across = 2, .down = 2, .separate = true},
          {.name = "arithmetic", .across = 2, .down = 2, .arithmetic = true},
          {.name = "progressive 4:2:0", .across = 2, .down = 2, .progressive = true},
          {.name = "progressive 4:2:2", .across = 2, .progressive = true},
          {.name = "progressive grey", .components = 1, .progressive = true},
          {.name = "coarse 4:2:0", .across = 2, .down = 2, .progressive = true, .coarse = true},
          {.name = "coarse 4:4:4", .progressive = true, .coarse = true}};
}

std::vector<uint8_t> WriteJpeg(const JpegKind& kind, int64_t height, int64_t width, uint64_t seed,
                               int orientation) {
  const std::vector<uint8_t> pixels = PixelsOf(kind, height, width, seed);
  const std::vector<jpeg_scan_info> scans = ScansOf(kind);
  jpeg_compress_struct codec = {};
  jpeg_error_mgr errors = {};
  codec.err = jpeg_std_error(&errors);  // an error ends the test's process
  jpeg_create_compress(&codec);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&codec, &buffer, &size);
  codec.image_height = static_cast<JDIMENSION>(height);
  codec.image_width = static_cast<JDIMENSION>(width);
  codec.input_components = kind.components;
  codec.in_color_space = kind.components == 1   ? JCS_GRAYSCALE
                         : kind.components == 3 ? JCS_RGB
                                                : JCS_CMYK;
  jpeg_set_defaults(&codec);
  if (kind.components == 4) jpeg_set_colorspace(&codec, JCS_YCCK);
  jpeg_set_quality(&codec, kQuality, TRUE);
  // Of YCCK the fourth component, black, has as many samples as brightness.
  for (int i = 0; i < kind.components; i += 3) {
    codec.comp_info[i].h_samp_factor = kind.across;
    codec.comp_info[i].v_samp_factor = kind.down;
  }
  codec.arith_code = kind.arithmetic ? TRUE : FALSE;
  codec.restart_interval = static_cast<unsigned>(kind.restart_interval);
  if (kind.progressive) jpeg_simple_progression(&codec);
  if (kind.coarse || kind.separate) {
    codec.scan_info = scans.data();
    codec.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&codec, TRUE);
  if (orientation != 1) WriteOrientation(codec, orientation);
  while (codec.next_scanline < codec.image_height) {
    auto* row = const_cast<JSAMPROW>(pixels.data() + codec.next_scanline * width * kind.components);
    jpeg_write_scanlines(&codec, &row, 1);
  }
  jpeg_finish_compress(&codec);
  jpeg_destroy_compress(&codec);
  std::vector<uint8_t> file(buffer, buffer + size);
  std::free(buffer);
  return file;
}

}  // namespace plimsoll::formats
