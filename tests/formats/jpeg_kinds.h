// JPEG files of each kind that libjpeg writes and that is read, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::formats {

struct JpegKind {
  std::string name;
  int components = 3;        // 1: grey, 3: colours, 4: YCCK
  int across = 1, down = 1;  // samples of brightness for one of colours
  bool progressive = false;
  bool coarse = false;  // of a progressive file: the last bits are not there
  bool arithmetic = false;
  int restart_interval = 0;  // blocks; 0: none
  bool separate = false;     // each component has a scan of its own
};

std::vector<JpegKind> JpegKinds();

// A file with smooth and noisy pixels, which follow from the seed, and an Exif orientation.
std::vector<uint8_t> WriteJpeg(const JpegKind& kind, int64_t height, int64_t width, uint64_t seed,
                               int orientation = 1);

}  // namespace plimsoll::formats
