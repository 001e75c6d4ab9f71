#include "data/tokens/dataset.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/data/sources.h"
#include "tests/support/compress.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;

std::string Text(const SourceList& sources) {
  std::string text;
  for (const auto& source : sources) {
    for (const int32_t id : ReadAll(*source)) text.push_back(static_cast<char>(id));
  }
  return text;
}

std::string Text(const std::vector<MixturePart>& parts) {
  std::string text;
  for (const MixturePart& part : parts) text += Text(part.sources);
  return text;
}

DataOptions TextOptions(std::vector<std::string> train) {
  DataOptions options;
  options.train = {{.files = std::move(train)}};
  options.tokenizer = "byte";
  options.split.delimiter = "%";
  options.split.eval_fraction = 0.1;
  options.vocab = 256;
  return options;
}

class SplitDocuments : public testing::Test {
 protected:
  DocumentSplit Split(const std::vector<std::string>& texts, const SplitOptions& options) {
    std::vector<std::string> paths;
    for (const std::string& text : texts) {
      paths.push_back(folder_.Write("text" + std::to_string(paths.size()), text));
    }
    texts_.push_back(std::make_unique<std::vector<MappedFile>>(MapTexts(paths, "data.train")));
    return data::SplitDocuments(*texts_.back(), options);
  }

  const TempFolder folder_;
  std::vector<std::unique_ptr<std::vector<MappedFile>>> texts_;
};

std::vector<std::string> All(const DocumentList& documents) {
  std::vector<std::string> all;
  for (int64_t i = 0; i < documents.size(); ++i) all.emplace_back(documents[i].text);
  return all;
}

TEST_F(SplitDocuments, HoldsOutAFairSampleOfDocuments) {
  const std::string text = Sayings(200);
  SplitOptions options;
  options.delimiter = "%";
  options.eval_fraction = 0.1;
  const DocumentSplit split = Split({text}, options);
  EXPECT_TRUE(split.delimited);
  EXPECT_EQ(split.train.size(), 180);
  EXPECT_EQ(split.eval.size(), 20);
  const std::vector<std::string> train = All(split.train), eval = All(split.eval);
  std::set<std::string> all(train.begin(), train.end());
  all.insert(eval.begin(), eval.end());
  EXPECT_EQ(all.size(), 200u);
  EXPECT_TRUE(all.count("saying 0\n"));
  // The held-out documents are not merely the last ones, and the same every time.
  int early = 0;
  for (const std::string& document : eval) early += document < "saying 2";
  EXPECT_GT(early, 2);
  EXPECT_EQ(All(Split({text}, options).eval), eval);
  options.seed = 2;
  EXPECT_NE(All(Split({text}, options).eval), eval);
  options.eval_fraction = 0;
  EXPECT_TRUE(Split({text}, options).eval.empty());
}

// More than are written at a time.
TEST_F(SplitDocuments, ManyAreAllThere) {
  constexpr int kMany = 50'000;
  SplitOptions options;
  options.delimiter = "%";
  const DocumentSplit split = Split({Sayings(kMany), Sayings(10)}, options);
  EXPECT_EQ(split.train.size(), kMany + 10);
  EXPECT_EQ(split.bytes, std::ssize(Sayings(kMany)) + std::ssize(Sayings(10)) - 2 * (kMany + 8));
  const std::vector<std::string> all = All(split.train);
  const std::set<std::string> different(all.begin(), all.end());
  EXPECT_EQ(std::ssize(different), kMany);
  EXPECT_TRUE(different.contains("saying 49999\n"));
}

TEST_F(SplitDocuments, DelimiterIsALineOfItsOwn) {
  SplitOptions options;
  options.delimiter = "%";
  const DocumentSplit split = Split({"%\na 50%\n%%\n%\r\n%\nb", "c\n%"}, options);
  const std::vector<std::string> train = All(split.train);
  const std::set<std::string> documents(train.begin(), train.end());
  EXPECT_EQ(documents, (std::set<std::string>{"a 50%\n%%\n", "b", "c\n"}));
}

TEST_F(SplitDocuments, TextWithoutDocumentsGivesItsTail) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "line " + std::to_string(i) + "\n";
  SplitOptions options;
  options.eval_fraction = 0.1;
  const DocumentSplit split = Split({text, text}, options);
  EXPECT_FALSE(split.delimited);
  ASSERT_EQ(split.train.size(), 2);
  ASSERT_EQ(split.eval.size(), 2);
  EXPECT_EQ(std::string(split.train[0].text) + std::string(split.eval[0].text), text);
  EXPECT_EQ(split.eval[0].text.substr(0, 5), "line ");
  EXPECT_NEAR(static_cast<double>(split.eval[0].text.size()),
              0.1 * static_cast<double>(text.size()), 20);
  // Without lines, the cut must still not split UTF-8 sequences.
  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "\xe8\xb2\xa8";
  for (const double fraction : {0.1, 0.101, 0.103, 0.105}) {
    options.eval_fraction = fraction;
    EXPECT_EQ(Split({wide}, options).eval[0].text.size() % 3, 0u);
  }
}

TEST_F(SplitDocuments, FractionsMustLeaveTrainingText) {
  SplitOptions options;
  options.delimiter = "%";
  for (const double fraction : {-0.1, 1.0, 7.0}) {
    options.eval_fraction = fraction;
    ExpectUserError([&] { Split({"a"}, options); }, {"data.eval_fraction", "[0, 1)"});
  }
  options.eval_fraction = 0.9;
  ExpectUserError([&] { Split({"a\n%\nb\n"}, options); },
                  {"data.eval_fraction", "2 documents", "hold out 2"});
}

TEST(ExpandFiles, TakesAPathThatExistsAsItIsWritten) {
  const TempFolder files;
  const auto expand = [&](const std::string& pattern) {
    return ExpandFiles({files / pattern}, {}, "data.train");
  };
  for (const char* name : {"my[1].txt", "my1.txt", "what?.txt", "{a,b}", "*", "back\\slash"}) {
    files.Write(name, "");
    EXPECT_EQ(expand(name), std::vector{files / name}) << name;
  }
  EXPECT_EQ(expand("my[12].txt"), std::vector{files / "my1.txt"});
  fs::create_directories(files / "run[1]");
  fs::create_directories(files / "run1");
  files.Write("run1/a.txt", "");
  files.Write("run[1]/b.txt", "");
  EXPECT_EQ(expand("run[1]/*.txt"), std::vector{files / "run[1]/b.txt"});
  EXPECT_EQ(expand("run[1-9]/*.txt"), std::vector{files / "run1/a.txt"});
  ExpectUserError([&] { expand("run[1]"); }, {"run[1]/*"});
}

// The link is named when it is opened.
TEST(ExpandFiles, ListsALinkToNothing) {
  const TempFolder files;
  fs::create_symlink("gone", files / "a.txt");
  EXPECT_EQ(ExpandFiles({files / "*.txt"}, {}, "data.train"), std::vector{files / "a.txt"});
  ExpectUserError([&] { MapTexts({files / "a.txt"}, "data.train"); }, {"a.txt"});
}

TEST(ExpandFiles, SortsExcludesAndTakesEveryFileOnce) {
  const TempFolder files;
  for (const char* name : {"b", "a", "a.dat", "c.txt"}) files.Write(name, "x");
  fs::create_symlink("a", files / "a.u8");
  fs::create_directory(files / "folder");
  EXPECT_EQ(ExpandFiles({files / "*"}, {"*.dat"}, "data.train"),
            (std::vector<std::string>{files / "a", files / "b", files / "c.txt"}));
  EXPECT_EQ(ExpandFiles({files / "{c.txt,b}", files / "b"}, {}, "data.train"),
            (std::vector<std::string>{files / "b", files / "c.txt"}));
  ExpectUserError(
      [&] {
        ExpandFiles({files / "*", files / "d*"}, {}, "data.train");
      },
      {"data.train", "no file matches", "d*"});
  ExpectUserError([&] { ExpandFiles({files / "*.dat"}, {"*.dat"}, "data.eval"); },
                  {"data.eval", "*.dat", "excluded"});
  ExpectUserError([&] { ExpandFiles({files / "folder"}, {}, "data.train"); }, {"folder/*"});
}

TEST(OpenData, TextBecomesBytesWithItsDelimiters) {
  const TempFolder files;
  files.Write("one", Sayings(40));
  files.Write("two", "last without newline");
  const DataSet set = OpenData(TextOptions({files / "*"}));
  const std::string train = Text(set.train), eval = Text(set.eval);
  EXPECT_EQ(train.size() + eval.size(), Sayings(40).size() + 2 + 21 + 2);
  EXPECT_EQ(train.substr(train.size() - 3), "\n%\n");
  EXPECT_NE((train + eval).find("last without newline\n%\n"), std::string::npos);
  for (int i = 0; i < 40; ++i) {
    const std::string saying = "saying " + std::to_string(i) + "\n%\n";
    EXPECT_NE(train.find(saying) == std::string::npos, eval.find(saying) == std::string::npos);
  }
}

TEST(OpenData, HeldOutFilesTakeThePlaceOfAFraction) {
  const TempFolder files;
  DataOptions options = TextOptions({files.Write("train", Sayings(10))});
  options.eval = {files.Write("eval", "held out\n")};
  const DataSet set = OpenData(options);
  EXPECT_EQ(Text(set.train).size(), Sayings(10).size() + 2);
  EXPECT_EQ(Text(set.eval), "held out\n");
}

TEST(OpenData, ReadsCompressedText) {
  const TempFolder files;
  DataOptions plain = TextOptions({files.Write("train", Sayings(40))});
  DataOptions packed = TextOptions({files.Write("train.xz", Xz(Sayings(40)))});
  EXPECT_EQ(Text(OpenData(packed).train), Text(OpenData(plain).train));
  EXPECT_EQ(Text(OpenData(packed).eval), Text(OpenData(plain).eval));
  packed.eval = {files.Write("eval.gz", Gzip("held out\n"))};
  EXPECT_EQ(Text(OpenData(packed).eval), "held out\n");
  EXPECT_EQ(Text(OpenFiles(packed, {files.Write("more.zst", Zstd("more\n"))}, "--data").eval),
            "more\n");
}

TEST(OpenData, ShardsAreSourcesOfTheirOwn) {
  const TempFolder files;
  files.WriteAs<uint16_t>("train_1.bin", {4, 5});
  files.WriteAs<uint16_t>("train_0.bin", {1, 2, 3});
  files.WriteAs<uint8_t>("train_0.bin.mask", {1, 1, 0});
  files.WriteAs<uint16_t>("val_0.bin", {6});
  DataOptions options;
  options.train = {{.files = {files / "train_*"}}};
  options.eval = {files / "val_*.bin"};
  options.vocab = 10;
  const DataSet set = OpenData(options);
  ASSERT_EQ(set.train.size(), 1u);
  const SourceList& train = set.train[0].sources;
  ASSERT_EQ(train.size(), 2u);
  EXPECT_EQ(train[0]->size(), 3);
  EXPECT_TRUE(train[0]->has_mask());
  EXPECT_EQ(train[1]->size(), 2);
  ASSERT_EQ(set.eval.size(), 1u);
  EXPECT_EQ(set.eval[0].sources.size(), 1u);
}

TEST(OpenData, SyntheticNeedsNoFiles) {
  DataOptions options;
  options.synthetic = true;
  options.vocab = 50;
  const DataSet set = OpenData(options);
  ASSERT_EQ(set.train.size(), 1u);
  ASSERT_EQ(set.eval.size(), 1u);
  std::vector<int32_t> train(100), eval(100);
  set.train[0].sources[0]->Read(0, 100, train.data());
  set.eval[0].sources[0]->Read(0, 100, eval.data());
  EXPECT_NE(train, eval);

  options.sequence = 200000;  // which is evaluated, too
  EXPECT_EQ(OpenData(options).eval[0].sources[0]->size(), 200001);
}

// Each source holds out its own part; text and examples can be combined as separate sources.
TEST(OpenData, WeightedSourcesAreParts) {
  const TempFolder files;
  const std::string text = files.Write("a.txt", Sayings(40));
  const std::string examples =
      files.Write("b.jsonl", "{\"prompt\": \"a\", \"answer\": \"b\"}\n{\"text\": \"more\"}\n");
  DataOptions options = TextOptions({});
  options.train = {{{text, text}, 2}, {{examples}, 0.5}};
  const DataSet set = OpenData(options);
  ASSERT_EQ(set.train.size(), 2u);
  ASSERT_EQ(set.eval.size(), 2u);
  EXPECT_EQ(set.train[0].name, text + ", " + text);
  EXPECT_EQ(set.train[0].weight, 2);
  EXPECT_EQ(set.eval[1].weight, 0.5);
  EXPECT_FALSE(set.train[0].sources[0]->has_mask());
  EXPECT_TRUE(set.train[1].sources[0]->has_mask());
  EXPECT_EQ(Text(set.train).size() + Text(set.eval).size(),
            Sayings(40).size() + 2 + std::string("ab\n%\nmore\n%\n").size());
  // A single part equals a plain list.
  EXPECT_EQ(Text(set.train[0].sources), Text(OpenData(TextOptions({text})).train));

  options.eval = {examples};
  EXPECT_EQ(OpenData(options).eval.size(), 1u);
  options.train[1].files = {files / "missing"};
  ExpectUserError([&] { OpenData(options); }, {"data.train[1]", "no file matches", "missing"});
}

TEST(OpenData, MistakesAreNamed) {
  const TempFolder files;
  DataOptions options;
  ExpectUserError([&] { OpenData(options); }, {"data.train", "nothing to train on"});
  options.train = {{.files = {files.WriteAs<uint16_t>("a.bin", {1, 2, 3})}}};
  options.vocab = 3;
  ExpectUserError([&] { OpenData(options); }, {"a.bin", "token 2", "id 3"});
  options.split.eval_fraction = 0.1;
  ExpectUserError([&] { OpenData(options); }, {"data.eval_fraction", "data.eval"});
  options.synthetic = true;
  ExpectUserError([&] { OpenData(options); }, {"data.synthetic"});

  DataOptions text = TextOptions({files.Write("text", "hello")});
  text.vocab = 128;
  ExpectUserError([&] { OpenData(text); }, {"data.tokenizer", "255", "model.vocab 128"});
  text.vocab = 256;
  text.train = {{.files = {files.Write("empty", "")}}};
  ExpectUserError([&] { OpenData(text); }, {"data.train", "empty"});
  text.train = {{.files = {files.WriteAs<uint16_t>("tokens", {1, 2, 3})}}};
  ExpectUserError([&] { OpenData(text); }, {"tokens", "holds no text"});
  text.tokenizer = "bytes";
  ExpectUserError([&] { OpenData(text); }, {"bytes", "no such tokenizer"});
}

}  // namespace
}  // namespace plimsoll::data
