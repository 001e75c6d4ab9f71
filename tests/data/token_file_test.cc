#include "data/tokens/token_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/data/sources.h"
#include "tests/support/compress.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

TokenFileOptions Vocab(int64_t vocab, TokenFormat format = TokenFormat::kAuto) {
  TokenFileOptions options;
  options.vocab = vocab;
  options.format = format;
  return options;
}

// llm.c's header for `count` tokens, as bytes.
std::string Header(int32_t magic, int32_t version, int32_t count) {
  std::vector<int32_t> header(kHeaderInts, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return {reinterpret_cast<const char*>(header.data()), header.size() * sizeof(int32_t)};
}

template <typename T>
std::string Bytes(const std::vector<T>& ids) {
  return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(T)};
}

TEST(TokenFile, RawFormIsWideOnlyForLargeVocabularies) {
  const TempFolder files;
  const std::string narrow = files.WriteAs<uint16_t>("narrow.bin", {1, 2, 65535, 4});
  EXPECT_EQ(ReadAll(*OpenTokenFile(narrow, Vocab(65536))), (std::vector<int32_t>{1, 2, 65535, 4}));
  const std::string wide = files.WriteAs<uint32_t>("wide.bin", {1, 70000, 3});
  const auto file = OpenTokenFile(wide, Vocab(65537 + 5000));
  EXPECT_EQ(file->width(), 4);
  EXPECT_FALSE(file->has_header());
  EXPECT_EQ(file->MaxId(), 70000u);
  EXPECT_EQ(ReadAll(*file), (std::vector<int32_t>{1, 70000, 3}));
}

TEST(TokenFile, FormatOverridesTheVocabulary) {
  const TempFolder files;
  const std::string wide = files.WriteAs<uint32_t>("wide.bin", {1, 2, 3});
  EXPECT_EQ(OpenTokenFile(wide, Vocab(100, TokenFormat::kUint32))->size(), 3);
  EXPECT_EQ(OpenTokenFile(wide, Vocab(100))->size(), 6);
  const std::string narrow = files.WriteAs<uint16_t>("narrow.bin", {1, 2});
  EXPECT_EQ(OpenTokenFile(narrow, Vocab(1 << 17, TokenFormat::kUint16))->size(), 2);
  EXPECT_EQ(ParseTokenFormat("uint32"), TokenFormat::kUint32);
  ExpectUserError([] { ParseTokenFormat("int8"); }, {"data.format", "int8", "uint16"});
}

TEST(TokenFile, HeaderTellsTheForm) {
  const TempFolder files;
  const std::string narrow =
      files.Write("gpt2.bin", Header(20240520, 1, 3) + Bytes<uint16_t>({7, 8, 9}));
  const auto file = OpenTokenFile(narrow, Vocab(100000));
  EXPECT_TRUE(file->has_header());
  EXPECT_EQ(file->width(), 2);
  EXPECT_EQ(ReadAll(*file), (std::vector<int32_t>{7, 8, 9}));
  const std::string wide =
      files.Write("llama3.bin", Header(20240801, 7, 2) + Bytes<uint32_t>({128000, 9}));
  EXPECT_EQ(ReadAll(*OpenTokenFile(wide, Vocab(128256))), (std::vector<int32_t>{128000, 9}));
}

TEST(TokenFile, LyingHeadersAreErrors) {
  const TempFolder files;
  const std::string ids = Bytes<uint16_t>({7, 8, 9});
  const auto open = [&](const std::string& content, TokenFormat format = TokenFormat::kAuto) {
    OpenTokenFile(files.Write("x.bin", content), Vocab(256, format));
  };
  ExpectUserError([&] { open(Header(20240520, 1, 4) + ids); }, {"x.bin", "4 tokens", "1030 bytes"});
  ExpectUserError([&] { open(Header(20240520, 1, 2) + ids); }, {"x.bin", "2 tokens"});
  ExpectUserError([&] { open(Header(20240520, 1, -1) + ids); }, {"x.bin", "-1 tokens"});
  ExpectUserError([&] { open(Header(20240520, 1, 0x7fffffff) + ids); }, {"x.bin", "2147483647"});
  ExpectUserError([&] { open(Header(20240520, 2, 3) + ids); }, {"x.bin", "version 2"});
  ExpectUserError([&] { open(Header(20240520, 1, 0)); }, {"x.bin", "no tokens"});
  ExpectUserError([&] { open(Header(20240520, 1, 3).substr(0, 500)); }, {"x.bin", "truncated"});
  ExpectUserError([&] { open(Header(20240520, 1, 3) + ids, TokenFormat::kUint32); },
                  {"x.bin", "uint16", "uint32", "auto"});
}

TEST(TokenFile, MissingEmptyAndTruncatedFilesAreErrors) {
  const TempFolder files;
  ExpectUserError([&] { OpenTokenFile(files / "none.bin", Vocab(256)); },
                  {"none.bin", "cannot be opened", "check the path"});
  ExpectUserError([&] { OpenTokenFile(files.path(), Vocab(256)); },
                  {files.path(), "not a regular file"});
  ExpectUserError([&] { OpenTokenFile(files.Write("empty.bin", ""), Vocab(256)); },
                  {"empty.bin", "is empty", "data tokenize"});
  ExpectUserError([&] { OpenTokenFile(files.Write("odd.bin", "abc"), Vocab(256)); },
                  {"odd.bin", "3 bytes", "uint16", "data.format"});
  ExpectUserError([&] { OpenTokenFile(files.Write("odd4.bin", "abcdef"), Vocab(100000)); },
                  {"odd4.bin", "6 bytes", "uint32"});
}

TEST(TokenFile, CompressedFilesAreRefused) {
  const TempFolder files;
  const std::string packed = Gzip(std::string(1000, 'a') + "b");
  ExpectUserError([&] { OpenTokenFile(files.Write("a.bin.gz", packed), TokenFileOptions()); },
                  {"a.bin.gz", "is compressed", "data.tokenizer"});
  // A token file may begin with the same bytes as a compressed one, or have such a name.
  files.WriteAs<uint16_t>("b.bin", {0x8b1f, 2});
  EXPECT_EQ(OpenTokenFile(files / "b.bin", TokenFileOptions())->size(), 2);
  files.WriteAs<uint16_t>("c.gz", {1, 2});
  EXPECT_EQ(OpenTokenFile(files / "c.gz", TokenFileOptions())->size(), 2);
}

TEST(TokenFile, IdsBeyondTheVocabularyAreFoundWhenOpened) {
  const TempFolder files;
  std::vector<uint16_t> ids(1000, 5);
  ids[777] = 256;
  const std::string path = files.WriteAs("ids.bin", ids);
  EXPECT_EQ(OpenTokenFile(path, Vocab(257))->size(), 1000);
  ExpectUserError([&] { OpenTokenFile(path, Vocab(256)); },
                  {"ids.bin", "token 777", "id 256", "vocabulary of 256", "model.vocab"});
}

TEST(TokenFile, LargeFilesAreCheckedAsTheyAreRead) {
  const TempFolder files;
  std::vector<uint32_t> ids(1000, 5);
  ids[777] = 0xffffffffu;
  TokenFileOptions options = Vocab(0, TokenFormat::kUint32);
  options.scan_limit_bytes = 100;
  const auto file = OpenTokenFile(files.WriteAs("ids.bin", ids), options);
  std::vector<int32_t> out(1000);
  file->Read(0, 777, out.data());
  ExpectUserError([&] { file->Read(700, 100, out.data()); },
                  {"ids.bin", "token 777", "4294967295"});
  file->Read(778, 222, out.data());
  EXPECT_THROW(file->Read(900, 101, out.data()), InternalError);
  EXPECT_THROW(file->Read(-1, 1, out.data()), InternalError);
}

TEST(TokenFile, MaskSaysWhichTargetsCarryLoss) {
  const TempFolder files;
  const std::string path = files.WriteAs<uint16_t>("a.bin", {10, 11, 12, 13});
  EXPECT_FALSE(OpenTokenFile(path, Vocab(256))->has_mask());
  files.WriteAs<uint8_t>("a.bin.mask", {1, 0, 0, 1});
  const auto file = OpenTokenFile(path, Vocab(256));
  EXPECT_TRUE(file->has_mask());
  EXPECT_EQ(file->CountTargets(0, 4), 2);
  EXPECT_EQ(file->CountTargets(1, 3), 1);
  std::vector<int32_t> targets = {11, 12, 13};
  file->MaskTargets(1, 3, targets.data());
  EXPECT_EQ(targets, (std::vector<int32_t>{kIgnoredTarget, kIgnoredTarget, 13}));

  files.WriteAs<uint8_t>("a.bin.mask", {1, 0, 0});
  ExpectUserError([&] { OpenTokenFile(path, Vocab(256)); }, {"a.bin.mask", "3 bytes", "4 tokens"});
  files.WriteAs<uint8_t>("a.bin.mask", {1, 0, 2, 1});
  ExpectUserError([&] { OpenTokenFile(path, Vocab(256)); }, {"a.bin.mask", "byte 2 is 2"});
}

TEST(TokenFileWriter, WritesWhatIsRead) {
  const TempFolder files;
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 10000; ++i) ids.push_back(i * 6);
  for (const int width : {2, 4}) {
    for (const bool header : {false, true}) {
      TokenFileForm form;
      form.width = width;
      form.header = header;
      TokenFileWriter writer(files / "out.bin", form);
      writer.Append({ids.data(), 3});
      writer.Append({ids.data() + 3, ids.size() - 3});
      writer.Finish();
      writer.Commit();
      const auto file =
          OpenTokenFile(files / "out.bin",
                        Vocab(60000, width == 2 ? TokenFormat::kUint16 : TokenFormat::kUint32));
      EXPECT_EQ(file->has_header(), header);
      EXPECT_EQ(file->width(), width);
      EXPECT_EQ(ReadAll(*file), ids);
    }
  }
}

TEST(TokenFileWriter, LeavesNothingHalfWritten) {
  const TempFolder files;
  files.Write("out.bin", "old");
  {
    TokenFileWriter writer(files / "out.bin", TokenFileForm());
    const std::vector<int32_t> ids = {1, 2, 3};
    writer.Append(ids);
    writer.Finish();
    EXPECT_EQ(files.Read("out.bin"), "old");
    const std::vector<int32_t> wide = {65536};
    TokenFileWriter other(files / "other.bin", TokenFileForm());
    EXPECT_THROW(other.Append(wide), InternalError);
  }
  EXPECT_EQ(files.Names(), (std::vector<std::string>{"out.bin"}));
  EXPECT_EQ(files.Read("out.bin"), "old");
  ExpectUserError([&] { TokenFileWriter(files / "no/where.bin", TokenFileForm()); },
                  {"where.bin", "cannot be created"});
}

}  // namespace
}  // namespace plimsoll::data
