// RandAugment's operations against torchvision's (make_image_operations_golden.py).
#include "data/images/image_operations.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr const char* kNames[] = {
    "Identity",   "ShearX",   "ShearY",    "TranslateX", "TranslateY", "Rotate",       "Brightness",
    "Saturation", "Contrast", "Sharpness", "Posterize",  "Solarize",   "AutoContrast", "Equalize"};

Bytes FromHex(const std::string& text) {
  Bytes bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(ImageOperations, AreTorchvisions) {
  std::set<std::string> seen;
  for (const nlohmann::json& c :
       nlohmann::json::parse(ReadFile("tests/data/testdata/image_operations.json"))) {
    const std::string name = c["operation"];
    seen.insert(name);
    const auto number = std::find(std::begin(kNames), std::end(kNames), name) - std::begin(kNames);
    ASSERT_LT(number, kImageOperations);
    const auto operation = static_cast<ImageOperation>(number);
    const std::vector<int64_t> dims = c["size"];
    const ImageSize size = {dims[0], dims[1], dims[2]};
    const double magnitude = MagnitudeOf(operation, c["strength"], size);
    Bytes image = FromHex(c["before"]), scratch(image.size());
    ApplyImageOperation(operation, c["sign"].get<int>() * magnitude, size, image, scratch);
    EXPECT_EQ(image, FromHex(c["after"])) << name << " " << c["strength"] << " " << c["sign"];
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(kImageOperations));
}

// No operation reads beyond an image that is small or has another number of channels.
TEST(ImageOperations, TakeImagesOfAnySize) {
  for (const ImageSize& size :
       {ImageSize{1, 1, 1}, ImageSize{2, 5, 3}, ImageSize{7, 3, 2}, ImageSize{4, 4, 4}}) {
    for (int number = 0; number < kImageOperations; ++number) {
      const auto operation = static_cast<ImageOperation>(number);
      for (const int64_t strength : {int64_t{0}, kStrengths - 1}) {
        Bytes image(static_cast<size_t>(size.elements())), scratch(image.size());
        for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<uint8_t>(37 * i);
        ApplyImageOperation(operation, MagnitudeOf(operation, strength, size), size, image,
                            scratch);
        EXPECT_EQ(image.size(), static_cast<size_t>(size.elements()));
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::data
