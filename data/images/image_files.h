// Labelled images in the file formats of common classification data sets. N images, H height, W
// width, C channels.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plimsoll::data {

struct ImageSize {
  int64_t height = 0, width = 0, channels = 0;

  int64_t elements() const { return height * width * channels; }
  std::string ToString() const;  // "28 × 28 × 1"
  bool operator==(const ImageSize&) const = default;
};

struct LabelledImages {
  // A file of labels, and the number of its first image among all images.
  struct File {
    std::string path;
    int64_t first = 0;
  };

  ImageSize size;
  std::vector<File> files = {};  // in the order of their images
  std::vector<uint8_t> pixels;   // [N,H,W,C]
  std::vector<uint8_t> labels;   // [N], each below the number of classes

  int64_t count() const { return static_cast<int64_t>(labels.size()); }
  // The pixels [H,W,C] of image `number`.
  std::span<const uint8_t> image(int64_t number) const {
    return std::span(pixels).subspan(static_cast<size_t>(number * size.elements()),
                                     static_cast<size_t>(size.elements()));
  }
};

inline constexpr ImageSize kCifarSize = {32, 32, 3};

struct ImageFiles {
  int64_t classes = 0;
  LabelledImages train, test;  // all images have one size; neither set is empty
};

// The number of classes in MNIST's and in CIFAR-10's format.
inline constexpr int64_t kStoredClasses = 10;

// True if the folder has any of the files that ReadImageFiles looks for.
bool HasImageFiles(const std::string& folder);

// Reads the folder's files, which must match each other:
//   MNIST's    {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte, plain or with
//              .gz: C = 1, 10 classes (MNIST, Fashion-MNIST, Kuzushiji-MNIST)
//   CIFAR-10's data_batch_1.bin to data_batch_5.bin and test_batch.bin, in the folder or in its
//              subfolder cifar-10-batches-bin: 32 × 32, C = 3 (red, green, blue), 10 classes
// Throws a UserError that names the file if a file is missing or damaged, does not match the others
// or has a label that is not a class. Throws a UserError, too, if the folder has no such files.
ImageFiles ReadImageFiles(const std::string& folder);

// Reads the images of one CIFAR-10 file.
LabelledImages ReadCifarFile(const std::string& path);

}  // namespace plimsoll::data
