// The images of Debian's package dataset-fashion-mnist, if it is installed.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "data/images/image_files.h"
#include "data/images/image_normalisation.h"

namespace plimsoll::data {
namespace {

constexpr const char* kFolder = "/usr/share/datasets/fashion-mnist";

TEST(FashionMnist, IsReadWhole) {
  if (!std::filesystem::exists(kFolder)) {
    GTEST_SKIP() << kFolder << " is absent: apt-get install dataset-fashion-mnist";
  }
  const ImageFiles files = ReadImageFiles(kFolder);
  EXPECT_EQ(files.train.count(), 60000);
  EXPECT_EQ(files.test.count(), 10000);
  EXPECT_EQ(files.train.size, (ImageSize{28, 28, 1}));
  for (const LabelledImages* part : {&files.train, &files.test}) {
    std::array<int64_t, 10> counts = {};
    for (const uint8_t label : part->labels) ++counts[label];
    for (const int64_t count : counts) EXPECT_EQ(count, part->count() / 10);
  }
  // The numbers in common use for it.
  const ChannelStatistics statistics = StatisticsOf(files.train);
  EXPECT_NEAR(statistics.mean[0], 0.2860, 5e-5);
  EXPECT_NEAR(statistics.std[0], 0.3530, 5e-5);
}

}  // namespace
}  // namespace plimsoll::data
