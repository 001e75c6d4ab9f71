#include "trainer/config/follow_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/config/load_text.h"

namespace plimsoll::config {
namespace {

using testing::HasSubstr;

class FollowData : public testing::Test {
 protected:
  // Files that nobody opens.
  void Write(const std::string& name, const std::string& text = "") const {
    std::filesystem::create_directories(std::filesystem::path(folder_ / name).parent_path());
    folder_.Write(name, text);
  }
  Loaded Load(const std::string& model, const std::string& data,
              const std::vector<std::string>& sets = {}) const {
    return LoadText("model: {" + model + "}\ndata: {" + data + "}\n", "run.yaml", sets);
  }
  Loaded Images(const std::string& more = "", const std::vector<std::string>& sets = {}) const {
    return Load("family: resnet, depth: 8, image_size: 8, channels: 3",
                "source: images, folder: " + folder_.path() + more, sets);
  }
  static int64_t ClassesOf(const Loaded& loaded) {
    return loaded.config.model.settings.Int("classes");
  }
  void ExpectMissing(const std::string& model, const std::string& data) const {
    ExpectUserError([&] { Load(model, data); }, {"run.yaml:1: model.classes: missing"});
  }

  const TempFolder folder_;
};

TEST_F(FollowData, ClassesAreTheFoldersOfImages) {
  for (const char* name : {"train/a/1.png", "train/b/1.png", "train/c/1.png", "dev/a/1.png"}) {
    Write(name);
  }
  const Loaded loaded = Images();
  EXPECT_EQ(ClassesOf(loaded), 3);
  EXPECT_THAT(loaded.resolved_yaml, HasSubstr("\n  classes: 3\n"));
  ExpectRoundTrip(loaded);
  EXPECT_EQ(ClassesOf(Images("", {"model.classes=5"})), 5);
  // A number is predicted, whatever the folders are.
  EXPECT_EQ(ClassesOf(Images("", {"model.problem_type=regression"})), 1);
}

TEST_F(FollowData, ClassesAreTheLabelsOfAList) {
  Write("1.png");
  Write("metadata.jsonl",
        "{\"file_name\": \"1.png\", \"label\": \"cat\"}\n"
        "{\"file_name\": \"1.png\", \"label\": \"dog\"}\n");
  EXPECT_EQ(ClassesOf(Images()), 2);
  EXPECT_EQ(ClassesOf(Images(", class_names: [dog, cat, cow]")), 3);
  Write("metadata.jsonl", "{\"file_name\": \"1.png\", \"label\": [0, 3]}\n");
  EXPECT_EQ(ClassesOf(Images("", {"model.problem_type=multi_label_classification"})), 4);
}

TEST_F(FollowData, ClassesAreTheLabelsOfTexts) {
  const std::string bert =
      "family: bert, task: classification, layers: 1, width: 8, heads: 2, sequence: 16, vocab: 300";
  const std::string data = "source: labelled_text, tokenizer: byte, train: " + folder_ / "*.jsonl";
  Write("a.jsonl", "{\"text\": \"x\", \"label\": \"no\"}\n{\"text\": \"y\", \"label\": \"yes\"}\n");
  EXPECT_EQ(ClassesOf(Load(bert, data)), 2);
  Write("b.jsonl", "{\"text\": \"x\", \"label\": \"maybe\"}\n");
  EXPECT_EQ(ClassesOf(Load(bert, data)), 3);
  EXPECT_EQ(ClassesOf(Load(bert, data + ", label_names: [no, yes, maybe, never]")), 4);
  Write("b.jsonl", "{\"text\": \"x\"}\n");
  ExpectUserError([&] { Load(bert, data); }, {"b.jsonl:1", "label"});
}

TEST_F(FollowData, ClassesAreThoseThatADatasetNames) {
  const std::string unet =
      "family: unet, image_depth: 8, image_height: 8, image_width: 8, levels: 2, features: 4";
  const std::string data = "source: volumes, folder: " + folder_.path();
  Write("imagesTr/a.nii");
  Write("labelsTr/a.nii");
  ExpectMissing(unet, data);
  Write("dataset.json", R"({"labels": {"background": 0, "liver": 1, "tumour": 2, "ignore": 3}})");
  EXPECT_EQ(ClassesOf(Load(unet, data)), 3);
}

TEST_F(FollowData, DataThatDoNotTellLeaveTheKeyToTheFile) {
  ExpectMissing("family: resnet, depth: 8, image_size: 8, channels: 3", "source: synthetic_images");
}

TEST_F(FollowData, WhatIsWrongWithTheDataIsSaidAtOnce) {
  ExpectUserError(
      [&] { Images("/gone"); },
      {"run.yaml:2: data.folder: ", "/gone: there is no such folder",
       "(the number of classes follows from the data; without them give model.classes)"});
  Write("1.jpg");
  ExpectUserError([&] { Images(); }, {"run.yaml:2: data.folder: ", "holds images, but no folders"});
  Write("a/1.jpg");
  ExpectUserError([&] { Images(); }, {"run.yaml:1: model.classes: missing", "have 1 class"});
  EXPECT_EQ(ClassesOf(Images("", {"model.classes=2"})), 2);
}

TEST_F(FollowData, DataMayBeOnAnotherMachine) {
  const auto misses = [&](const std::string& train, const std::string& tokenizer) {
    return MissesData(
        Parse(kModel + "data: {train: \"" + train + "\", tokenizer: " + tokenizer + "}\n"));
  };
  Write("a[1].txt");
  EXPECT_FALSE(misses(folder_ / "a[1].txt", "byte"));
  EXPECT_FALSE(misses(folder_ / "*.txt", folder_.path()));
  EXPECT_TRUE(misses(folder_ / "*.text", "byte"));
  EXPECT_TRUE(misses(folder_ / "a[1].txt", folder_ / "gone"));
  EXPECT_TRUE(MissesData(Parse(kModel + "data: {train: \"" + folder_ / "a[1].txt" +
                               "\", eval: " + folder_ / "gone" + ", tokenizer: byte}\n")));
  EXPECT_FALSE(MissesData(Parse(kBase)));
}

// By their names, also where they are not on this machine. An own value stays.
TEST_F(FollowData, ExamplesAreKeptApart) {
  const auto packing = [&](const std::string& train, const std::string& more = "",
                           const std::string& model = "") {
    const Loaded loaded = Load("family: gpt2, layers: 1, width: 8, heads: 2, sequence: 16" + model,
                               "tokenizer: byte, train: " + train + more);
    ExpectRoundTrip(loaded);
    return loaded.config.data.packing;
  };
  for (const char* name : {"chats/a.jsonl", "chats/b.json.gz", "mixed/a.jsonl", "mixed/a.txt"}) {
    Write(name);
  }
  EXPECT_EQ(packing(folder_ / "chats/a.jsonl"), Packing::kBestFit);
  EXPECT_EQ(packing(folder_ / "chats/*"), Packing::kBestFit);
  EXPECT_EQ(packing("gone.jsonl"), Packing::kBestFit);
  EXPECT_EQ(packing(folder_ / "mixed/*", ", exclude: \"*.txt\""), Packing::kBestFit);
  EXPECT_EQ(packing(folder_ / "mixed/*"), Packing::kConcatenate);
  EXPECT_EQ(packing(folder_ / "mixed/a.txt"), Packing::kConcatenate);
  EXPECT_EQ(packing("gone.txt"), Packing::kConcatenate);
  EXPECT_EQ(packing("[{files: a.jsonl}, {files: a.txt}]"), Packing::kConcatenate);
  EXPECT_EQ(packing(folder_ / "mixed/a.txt", ", eval: a.jsonl"), Packing::kConcatenate);
  EXPECT_EQ(packing("a.jsonl", ", packing: none"), Packing::kNone);
  EXPECT_EQ(packing("a.jsonl", ", packing: concatenate"), Packing::kConcatenate);
  EXPECT_EQ(packing("a.jsonl", "", ", attention: stored"), Packing::kConcatenate);
  EXPECT_EQ(Load("family: gpt2, layers: 1, width: 8, heads: 2, sequence: 16, vocab: 64",
                 "synthetic: true")
                .config.data.packing,
            Packing::kConcatenate);
}

}  // namespace
}  // namespace plimsoll::config
