#include "data/volumes/volume_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/key_walk.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

using Names = std::vector<std::string>;

class VolumeDatasetTest : public testing::Test {
 protected:
  VolumeDataset Read(const std::string& text) {
    return ReadDataset(folder_.Write("dataset.json", text));
  }
  void ExpectRefused(const std::string& text, std::initializer_list<std::string_view> parts) {
    const std::string message = UserErrorOf([&] { Read(text); });
    EXPECT_TRUE(message.starts_with(folder_ / "dataset.json")) << message;
    ExpectMessage(message, parts);
  }

  const TempFolder folder_;
};

TEST_F(VolumeDatasetTest, ClassesHaveNames) {
  const auto names = [&](const std::string& text, int64_t classes) {
    return Read(text).ClassNames(classes);
  };
  EXPECT_EQ(names(R"({"labels": {"1": "spleen", "0": "background"}})", 2),
            (Names{"background", "spleen"}));
  EXPECT_EQ(names(R"({"labels": {"background": 0, "spleen": 1}})", 2),
            (Names{"background", "spleen"}));
  // Of other classes than the model's.
  EXPECT_EQ(names(R"({"labels": {"background": 0, "spleen": 1}})", 3), Names());
  EXPECT_EQ(names(R"({"labels": {"background": 0, "spleen": 1, "liver": 2}})", 2), Names());
  EXPECT_EQ(names(R"({"labels": {"background": 0, "spleen": 2}})", 2), Names());
  EXPECT_EQ(names(R"({"name": "x"})", 2), Names());
}

TEST_F(VolumeDatasetTest, IgnoreIsNoClass) {
  for (const char* const text :
       {R"({"labels": {"background": 0, "tumour": 1, "ignore": 2}})",
        R"({"labels": {"0": "background", "1": "tumour", "2": "ignore"}})"}) {
    const VolumeDataset set = Read(text);
    EXPECT_EQ(set.ignored, 2);
    EXPECT_EQ(set.ClassNames(2), (Names{"background", "tumour"}));
    EXPECT_EQ(set.ClassNames(3), Names());
  }
  const VolumeDataset set = Read(R"({"labels": {"background": 0, "border": -1, "tumour": 1}})");
  EXPECT_EQ(set.ignored, std::nullopt);
  EXPECT_EQ(set.ClassNames(2), (Names{"background", "tumour"}));
}

TEST_F(VolumeDatasetTest, SaysThatTheModelHasOtherClasses) {
  const VolumeDataset set = Read(R"({"labels": {"background": 0, "spleen": 1, "liver": 3}})");
  EXPECT_THAT(set.OtherClasses(3), testing::HasSubstr("dataset.json names the labels 0, 1, 3, and "
                                                      "the model's classes are 0 to 2"));
  EXPECT_NE(set.OtherClasses(4), "");
  const VolumeDataset all = Read(R"({"labels": {"background": 0, "spleen": 1}})");
  EXPECT_EQ(all.OtherClasses(2), "");
  EXPECT_NE(all.OtherClasses(3), "");
  EXPECT_EQ(Read(R"({"name": "x"})").OtherClasses(2), "");
}

// A class that no voxel has is refused if the model can do without it.
TEST_F(VolumeDatasetTest, TheModelHasNoClassForIgnore) {
  const auto check = [&](const std::string& labels, int64_t classes) {
    const VolumeDataset set = Read(R"({"labels": )" + labels + "}");
    set.CheckIgnored(classes, folder_ / "dataset.json");
  };
  for (const int64_t classes : {3, 4}) {
    ExpectUserError([&] { check(R"({"background": 0, "tumour": 1, "ignore": 2})", classes); },
                    {"dataset.json: labels: 2 is called 'ignore'", "set model.classes to 2"});
  }
  EXPECT_NO_THROW(check(R"({"background": 0, "tumour": 1, "ignore": 2})", 2));
  EXPECT_NO_THROW(check(R"({"background": 0, "ignore": 1, "tumour": 2})", 3));
  EXPECT_NO_THROW(check(R"({"background": 0, "tumour": 1, "ignore": -1})", 3));
  EXPECT_NO_THROW(check(R"({"background": 0, "tumour": 1, "ignore": 255})", 3));
}

TEST_F(VolumeDatasetTest, RegionsAndOtherLabelsAreRefused) {
  ExpectRefused(R"({"labels": {"background": 0, "whole": [1, 2], "core": [2]}})",
                {"labels: 'core': [2] is a region", "a class of its own"});
  ExpectRefused(R"({"labels": {"background": 0}, "regions_class_order": [1, 2]})",
                {"regions_class_order", "[1,2]", "remove this key"});
  ExpectRefused(R"({"labels": {"ignore": 1, "tumour": 1}})", {"label 1 has two names"});
  ExpectRefused(R"({"labels": {"liver": 1, "tumour": 1}})", {"label 1 has two names"});
  ExpectRefused(R"({"labels": {"liver": 256}})", {"'liver': 256", "up to 255"});
  ExpectRefused(R"({"labels": {"liver": 0.5}})", {"'liver': 0.5"});
  ExpectRefused(R"({"labels": {"liver": "tumour"}})", {"'liver': \"tumour\""});
  ExpectRefused(R"({"file_ending": ".png"})", {"file_ending: is '.png'", "convert them"});
}

TEST_F(VolumeDatasetTest, EachKeyHasARule) {
  WalkKeys({.rules = DatasetKeys(),
            .valid = {{"labels", {{"background", 0}, {"tumour", 1}}}},
            .read =
                [&](const nlohmann::json& file) {
                  const VolumeDataset set = Read(file.dump());
                  return fmt::format("{} {} {} {} {} {}", set.classes, set.ignored.value_or(-1),
                                     set.channels, set.train, set.test,
                                     set.Normalisation("dataset.json", false));
                },
            .refuses_unknown = false});
}

}  // namespace
}  // namespace plimsoll::data
