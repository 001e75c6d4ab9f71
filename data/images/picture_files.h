// Pictures in files that a user names, without labels: one picture in a JPEG or PNG file
// (formats/decode_raster.h) or one of Netpbm's binary forms (P5 grey, P6 red, green and blue),
// several in files of MNIST's form (plain or with gzip) and of CIFAR-10's binary version, whose
// labels are passed over.
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
  int64_t number = -1;              // in a file of several; -1: the file is one picture
  ImageSize size;                   // with one channel (grey) or three (red, green, blue)
  std::span<const uint8_t> pixels;  // [H,W,C]
};

// The files named, and those in folders named, at any depth, links followed, in order; a folder's
// labels, other files that hold no pictures and names that begin with a dot are left out. A file
// that cannot be opened stays: to read it fails. UserError for a folder without pictures, and for a
// link that cannot be followed.
std::vector<std::string> FindPictures(const std::vector<std::string>& paths);

// True of a file that may hold more than one picture, by its form.
bool HoldsSeveral(const std::string& path);

// Calls visit(picture) for each picture of a file. UserError, which names the file: it is damaged,
// or of another form; of GIF, TIFF and their like with the way to convert it.
void ForEachPicture(const std::string& path, FunctionRef<void(const Picture&)> visit);

}  // namespace plimsoll::data
