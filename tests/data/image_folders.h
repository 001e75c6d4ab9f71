// Small files of images as data sets have them, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace plimsoll::data {

// The bytes of an IDX file with unsigned bytes as values.
inline std::string Idx(const std::vector<uint32_t>& shape, const std::string& values) {
  std::string bytes = {0, 0, 8, static_cast<char>(shape.size())};
  for (const uint32_t length : shape) {
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(length >> shift & 0xff);
  }
  return bytes + values;
}

// `count` images of h × w pixels, whose bytes count up from 0, and labels 0, 1, … below 10.
inline std::string IdxImages(uint32_t count, uint32_t h, uint32_t w) {
  std::string values;
  for (uint32_t i = 0; i < count * h * w; ++i) values += static_cast<char>(i);
  return Idx({count, h, w}, values);
}
inline std::string IdxLabels(uint32_t count) {
  std::string values;
  for (uint32_t i = 0; i < count; ++i) values += static_cast<char>(i % 10);
  return Idx({count}, values);
}

// MNIST's four files. Image i of h × w pixels for training has the bytes i·h·w, i·h·w + 1, …; those
// for tests count down from 255.
inline void WriteIdxFolder(const TempFolder& folder, uint32_t train, uint32_t test, uint32_t h = 3,
                           uint32_t w = 4) {
  folder.Write("train-images-idx3-ubyte", IdxImages(train, h, w));
  folder.Write("train-labels-idx1-ubyte", IdxLabels(train));
  std::string values;
  for (uint32_t i = 0; i < test * h * w; ++i) values += static_cast<char>(255 - i);
  folder.Write("t10k-images-idx3-ubyte", Idx({test, h, w}, values));
  folder.Write("t10k-labels-idx1-ubyte", IdxLabels(test));
}

inline constexpr int kCifarPlane = 32 * 32;

// A record of CIFAR-10: each plane counts up from a byte of its own.
inline std::string CifarRecord(int label, int red, int green, int blue) {
  std::string record(1, static_cast<char>(label));
  for (const int start : {red, green, blue}) {
    for (int i = 0; i < kCifarPlane; ++i) record += static_cast<char>(start + i);
  }
  return record;
}

// CIFAR-10's six files below `prefix`, two records in each for training and one for tests. Record i
// has label i and planes that begin with i, 50 + i and 100 + i.
inline void WriteCifarFolder(const TempFolder& folder, const std::string& prefix = "") {
  for (int file = 0; file < 5; ++file) {
    std::string records;
    for (int i = 2 * file; i < 2 * file + 2; ++i) records += CifarRecord(i, i, 50 + i, 100 + i);
    folder.Write(prefix + "data_batch_" + std::to_string(file + 1) + ".bin", records);
  }
  folder.Write(prefix + "test_batch.bin", CifarRecord(7, 1, 2, 3));
}

}  // namespace plimsoll::data
