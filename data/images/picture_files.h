// Unlabelled pictures in files that a user names. JPEG, PNG (formats/decode_raster.h) and binary
// Netpbm files (P5 grey, P6 red, green and blue) hold one picture. MNIST files (plain or gzip) and
// binary CIFAR-10 files hold several; their labels are ignored.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "data/images/image_files.h"

namespace plimsoll::data {

struct Picture {
  const std::string& file;
  int64_t number = -1;              // the picture's number in its file; -1: the file holds only one
  ImageSize size;                   // has one channel (grey) or three (red, green, blue)
  std::span<const uint8_t> pixels;  // [H,W,C]
};

// Lists the files named and, in order, the files at any depth in the folders named. Links are
// followed. In folders, label files, files without pictures and names that begin with a dot are
// left out. A file that cannot be opened stays in the list; reading it fails. Throws a UserError
// for a folder without pictures and for a link that cannot be followed.
std::vector<std::string> FindPictures(const std::vector<std::string>& paths);

// True if the file's format can hold more than one picture.
bool HoldsSeveral(const std::string& path);

// Calls visit(picture) for each picture of a file. A UserError names the file if it is damaged or
// has another format; for GIF, TIFF and similar formats it says how to convert the file.
void ForEachPicture(const std::string& path, FunctionRef<void(const Picture&)> visit);

}  // namespace plimsoll::data
