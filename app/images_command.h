// The command `plimsoll data images`: writes the images of a data set as JPEG or PNG files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::data {

struct WriteImagesOptions {
  std::string folder;  // made if need be
  // Where they are: files that ReadImageFiles reads.
  std::string from = "/usr/share/datasets/fashion-mnist";
  std::string format = "png";   // or "jpeg"
  int quality = 90;             // of JPEG, 1 to 100
  int64_t train = 0, test = 0;  // the first so many of each class; 0: all
  // Of the classes in the order of their numbers: names of folders. Empty: Fashion-MNIST's, or for
  // other images than `from` says by default their numbers.
  std::vector<std::string> classes = {};
};

// How many were written.
struct WrittenImages {
  int64_t train = 0, test = 0;
};

// Writes FOLDER/train/CLASS/NUMBER.png and FOLDER/test/CLASS/NUMBER.png, or .jpg, which data.folder
// and torchvision's ImageFolder read; NUMBER is the image's in its file. The same options give the
// same bytes. UserErrors: no such images, another number of classes, a folder that cannot be
// written or already holds images.
WrittenImages WriteImages(const WriteImagesOptions& options);

}  // namespace plimsoll::data
