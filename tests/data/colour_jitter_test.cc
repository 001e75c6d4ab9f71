#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "data/images/image_augmentation.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

using Bytes = std::vector<uint8_t>;

std::string Hex(const Bytes& bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    for (const int digit : {byte >> 4, byte & 15}) text += "0123456789abcdef"[digit];
  }
  return text;
}

Bytes FromHex(const std::string& text) {
  Bytes bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// By make_hue_golden.py.
TEST(ColourJitter, TurnsHuesAsPillowDoes) {
  const auto cases = nlohmann::json::parse(ReadFile("tests/data/testdata/hue.json"));
  EXPECT_EQ(cases.size(), 4u);
  for (const nlohmann::json& c : cases) {
    Bytes image = FromHex(c["before"]);
    TurnHue(c["turn"], 3, image);
    EXPECT_EQ(Hex(image), c["after"].get<std::string>()) << c["turn"];
  }
  Bytes grey = {1, 2, 3};
  TurnHue(0.3, 1, grey);
  EXPECT_EQ(grey, (Bytes{1, 2, 3}));
}

constexpr ImageSize kSize = {4, 5, 3};

Bytes Image() {
  Bytes image;
  for (int i = 0; i < kSize.elements(); ++i) image.push_back(static_cast<uint8_t>(40 + 53 * i));
  return image;
}

Bytes Changed(const ColourJitter& jitter, int64_t sample) {
  Bytes image = Image(), scratch(image.size());
  SampleRandom random(7, sample, 0);
  jitter.Change(random, kSize, image, scratch);
  return image;
}

TEST(ColourJitter, ChangesEachSampleInItsOwnWay) {
  EXPECT_FALSE(ColourJitter{}.any());
  EXPECT_EQ(Changed({}, 0), Image());
  for (const ColourJitter& jitter :
       {ColourJitter{.brightness = 0.4}, ColourJitter{.contrast = 0.4},
        ColourJitter{.saturation = 0.4}, ColourJitter{.hue = 0.1},
        ColourJitter{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1}}) {
    EXPECT_TRUE(jitter.any());
    std::set<Bytes> versions;
    for (int64_t sample = 0; sample < 40; ++sample) {
      versions.insert(Changed(jitter, sample));
      EXPECT_EQ(Changed(jitter, sample), Changed(jitter, sample));
    }
    EXPECT_GT(versions.size(), 20u);
  }
}

// Brightness alone is a factor within its range for all pixels.
TEST(ColourJitter, KeepsToItsRange) {
  const Bytes image = Image();  // its first byte is 40
  double least = 9, most = 0;
  for (int64_t sample = 0; sample < 300; ++sample) {
    const double factor = Changed({.brightness = 0.25}, sample)[0] / double{40};
    EXPECT_GE(factor, 0.75 - 1 / 40.0);
    EXPECT_LE(factor, 1.25);
    least = std::min(least, factor);
    most = std::max(most, factor);
  }
  EXPECT_LT(least, 0.78);
  EXPECT_GT(most, 1.2);
  // No factor is below 0: at most all is black, which a third of these are.
  int black = 0;
  for (int64_t sample = 0; sample < 90; ++sample) {
    black += Changed({.brightness = 3}, sample) == Bytes(image.size(), 0);
  }
  EXPECT_GT(black, 15);
  EXPECT_LT(black, 50);
}

}  // namespace
}  // namespace plimsoll::data
