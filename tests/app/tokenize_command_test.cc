#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "app/data_commands.h"
#include "data/tokens/dataset.h"
#include "tests/data/byte_folder.h"
#include "tests/data/sources.h"
#include "tests/support/compress.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

const std::string kLlama3 = "tests/data/tokenizers/llama3_style.json";

TokenizeOptions Options(const TempFolder& files, const std::string& tokenizer) {
  TokenizeOptions options;
  options.inputs = {files.Write("sayings", Sayings(50))};
  options.tokenizer = tokenizer;
  options.out = files / "out";
  options.split.delimiter = "%";
  options.split.eval_fraction = 0.2;
  return options;
}

std::string Decoded(const std::vector<std::string>& paths, const Tokenizer& tokenizer) {
  std::string text;
  for (const std::string& path : paths) {
    text += tokenizer.Decode(ReadAll(*OpenTokenFile(path, TokenFileOptions())));
  }
  return text;
}

TEST(Tokenize, BytesKeepTheirDelimiters) {
  const TempFolder files;
  std::string progress;
  const TokenizeResult result =
      Tokenize(Options(files, "byte"), [&](std::string_view text) { progress += text; });
  const auto tokenizer = LoadTokenizer("byte");
  const std::string train = Decoded(result.train_files, *tokenizer);
  const std::string eval = Decoded(result.eval_files, *tokenizer);
  EXPECT_EQ(train.size() + eval.size(), Sayings(50).size() + 2);
  EXPECT_EQ(std::count(train.begin(), train.end(), '%'), 40);
  EXPECT_EQ(std::count(eval.begin(), eval.end(), '%'), 10);
  EXPECT_EQ(result.train_tokens, static_cast<int64_t>(train.size()));
  EXPECT_EQ(files.Names("out"), (std::vector<std::string>{"train_000000.bin", "val_000000.bin"}));
  EXPECT_NE(progress.find("held-out"), std::string::npos);
}

TEST(Tokenize, EndOfTextFollowsEveryDocument) {
  const TempFolder files;
  TokenizeOptions options = Options(files, kLlama3);
  options.header = true;
  const TokenizeResult result = Tokenize(options, nullptr);
  const auto tokenizer = LoadTokenizer(kLlama3);
  const std::string text =
      Decoded(result.train_files, *tokenizer) + Decoded(result.eval_files, *tokenizer);
  EXPECT_EQ(text.find('%'), std::string::npos);
  for (int i = 0; i < 50; ++i) {
    const std::string saying = "saying " + std::to_string(i) + "\n<|end_of_text|>";
    EXPECT_NE(text.find(saying), std::string::npos) << saying;
  }
  EXPECT_TRUE(OpenTokenFile(result.train_files[0], TokenFileOptions())->has_header());
  options.overwrite = true;
  options.end_of_text = false;
  const TokenizeResult bare = Tokenize(options, nullptr);
  EXPECT_EQ(Decoded(bare.train_files, *tokenizer).find("<|end_of_text|>"), std::string::npos);
}

TEST(Tokenize, ShardsAreFilledInOrder) {
  const TempFolder files;
  TokenizeOptions options = Options(files, "byte");
  const std::string whole = Decoded(Tokenize(options, nullptr).train_files, *LoadTokenizer("byte"));
  options.shard_tokens = 100;
  options.overwrite = true;
  const TokenizeResult result = Tokenize(options, nullptr);
  EXPECT_EQ(result.train_files.size(), (whole.size() + 99) / 100);
  EXPECT_EQ(OpenTokenFile(result.train_files[0], TokenFileOptions())->size(), 100);
  EXPECT_EQ(Decoded(result.train_files, *LoadTokenizer("byte")), whole);
  // Fewer, larger shards must not leave the old ones behind.
  options.shard_tokens = 1000;
  const TokenizeResult again = Tokenize(options, nullptr);
  EXPECT_EQ(files.Names("out").size(), again.train_files.size() + again.eval_files.size());
}

TEST(Tokenize, CompressedTextGivesTheSameTokens) {
  const TempFolder files;
  TokenizeOptions options = Options(files, kLlama3);
  options.overwrite = true;
  const auto tokens = [&] {
    Tokenize(options, nullptr);
    return files.Read("out/train_000000.bin") + "|" + files.Read("out/val_000000.bin");
  };
  const std::string plain = tokens();
  for (const std::string& packed : {Gzip(Sayings(50)), Xz(Sayings(50)), Zstd(Sayings(50))}) {
    options.inputs = {files.Write("packed", packed)};
    EXPECT_EQ(tokens(), plain);
  }
  options.inputs = {files.Write("packed", Gzip(Sayings(50)).substr(0, 50))};
  options.out = files / "new";
  ExpectUserError([&] { Tokenize(options, nullptr); }, {"packed: truncated"});
  EXPECT_FALSE(std::filesystem::exists(files / "new"));
}

// The source's ids as targets, ignored ones included.
std::vector<int32_t> Targets(const TokenSource& source) {
  std::vector<int32_t> ids = ReadAll(source);
  source.MaskTargets(0, source.size(), ids.data());
  return ids;
}

TEST(Tokenize, ExamplesBecomeTheTokensThatTrainingMakesOfThem) {
  const TempFolder files;
  std::string lines;
  for (int i = 0; i < 30; ++i) {
    const std::string n = std::to_string(i);
    lines += i % 3 == 0 ? "{\"text\": \"all of " + n + "\"}\n"
                        : "{\"prompt\": \"what of " + n + "?\", \"answer\": \"this " + n + "\"}\n";
  }
  for (const std::string& tokenizer : {std::string("byte"), kLlama3}) {
    TokenizeOptions options = Options(files, tokenizer);
    options.inputs = {files.Write("qa.jsonl.gz", Gzip(lines))};
    options.overwrite = true;
    const TokenizeResult result = Tokenize(options, nullptr);
    EXPECT_EQ(files.Names("out"),
              (std::vector<std::string>{"train_000000.bin", "train_000000.bin.mask",
                                        "val_000000.bin", "val_000000.bin.mask"}));
    DataOptions data;
    data.train = {{.files = options.inputs}};
    data.tokenizer = tokenizer;
    data.split = options.split;
    const DataSet set = OpenData(data);
    const auto train = OpenTokenFile(result.train_files[0], {}),
               eval = OpenTokenFile(result.eval_files[0], {});
    EXPECT_EQ(ReadAll(*train), ReadAll(*set.train[0].sources[0]));
    EXPECT_EQ(Targets(*train), Targets(*set.train[0].sources[0]));
    EXPECT_EQ(Targets(*eval), Targets(*set.eval[0].sources[0]));
    const int64_t carries =
        train->CountTargets(0, train->size()) + eval->CountTargets(0, eval->size());
    EXPECT_EQ(train->size() + eval->size() - carries, result.ignored_tokens);
    EXPECT_GT(result.ignored_tokens, 20 * 8);
  }
  // Texts alone have no mask, and none of an earlier run stays.
  TokenizeOptions options = Options(files, "byte");
  options.inputs = {files.Write("texts.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n")};
  options.split = {};
  options.overwrite = true;
  EXPECT_EQ(Tokenize(options, nullptr).train_tokens, 8);
  EXPECT_EQ(files.Names("out"), (std::vector<std::string>{"train_000000.bin"}));
  // Masks are cut into shards as their tokens are.
  options.inputs = {files.Write("qa.jsonl", lines)};
  options.shard_tokens = 50;
  const TokenizeResult cut = Tokenize(options, nullptr);
  int64_t ignored = 0;
  for (const std::string& path : cut.train_files) {
    const auto shard = OpenTokenFile(path, {});
    ignored += shard->size() - shard->CountTargets(0, shard->size());
  }
  EXPECT_GT(cut.train_files.size(), 5u);
  EXPECT_EQ(ignored, cut.ignored_tokens);
}

TEST(Tokenize, RefusesFilesThatAreNeitherTextNorExamples) {
  const TempFolder files;
  TokenizeOptions options = Options(files, "byte");
  DataOptions data;
  data.tokenizer = "byte";
  const auto refused = [&](const std::string& what, const std::string& way_out) {
    ExpectUserError([&] { Tokenize(options, nullptr); }, {"data tokenize: ", what, way_out});
    data.train = {{.files = options.inputs}};
    ExpectUserError([&] { OpenData(data); }, {"data.train: ", what, way_out});
  };
  for (const std::string name : {"a.csv", "a.TSV", "a.parquet", "a.csv.gz"}) {
    options.inputs = {files.Write(name, "text,label\none,two\n")};
    refused(name + " is a table; ", "tools/to_jsonl.py " + options.inputs[0] + " FILE.jsonl");
  }
  options.inputs = {files.Write("a.xlsx", "text")};
  refused("a.xlsx is a table; ", "save it as Parquet or CSV");
  // Neither are they token files.
  data.tokenizer = "";
  ExpectUserError([&] { OpenData(data); }, {"data.train: ", "is a table"});
  data.tokenizer = "byte";
  options.inputs = {files.Write("b.jsonl", "{\"text\": \"one\"}\n"), files / "sayings"};
  refused("text and examples (*.jsonl, *.json) do not go together", "name one kind");
  options.inputs = {files / "b.jsonl"};
  options.end_of_text = false;
  ExpectUserError([&] { Tokenize(options, nullptr); }, {"--no-end-of-text", "leave it out"});
  EXPECT_FALSE(std::filesystem::exists(options.out));
}

TEST(Tokenize, DoesNotWriteOverItsInputs) {
  const TempFolder files;
  TokenizeOptions options = Options(files, "byte");
  std::filesystem::create_directory(options.out);
  options.inputs = {files.Write("out/train_000000.bin", Sayings(50))};
  options.overwrite = true;
  ExpectUserError([&] { Tokenize(options, nullptr); }, {"--out", "train_000000.bin", "are read"});
  EXPECT_EQ(files.Read("out/train_000000.bin"), Sayings(50));
}

TEST(Tokenize, RefusesWhatIsThereAndLeavesNothingHalfWritten) {
  const TempFolder files;
  TokenizeOptions options = Options(files, "byte");
  Tokenize(options, nullptr);
  ExpectUserError([&] { Tokenize(options, nullptr); }, {"train_000000.bin", "--overwrite"});
  options.out = files / "sayings";
  ExpectUserError([&] { Tokenize(options, nullptr); }, {"sayings", "--out"});
  options.out = files / "new";
  options.inputs = {files / "missing*"};
  ExpectUserError([&] { Tokenize(options, nullptr); }, {"missing*", "no file matches"});
  options.inputs = {files / "sayings"};
  options.shard_tokens = 0;
  ExpectUserError([&] { Tokenize(options, nullptr); }, {"--shard-tokens"});
  EXPECT_FALSE(std::filesystem::exists(files / "new"));
}

TEST(InspectTokenFile, SaysWhatIsInAFile) {
  const TempFolder files;
  const std::string path = files.WriteAs<uint16_t>("a.bin", {'h', 'i', 0xe2, 0x82, 'x'});
  files.WriteAs<uint8_t>("a.bin.mask", {1, 0, 0, 1, 1});
  const auto tokenizer = LoadTokenizer("byte");
  const TokenFileSummary summary = InspectTokenFile(path, TokenFileOptions(), tokenizer.get(), 4);
  EXPECT_EQ(summary.tokens, 5);
  EXPECT_EQ(summary.masked, 2);
  EXPECT_EQ(summary.max_id, 0xe2u);
  EXPECT_EQ(summary.first, (std::vector<int32_t>{'h', 'i', 0xe2, 0x82}));
  EXPECT_EQ(summary.first_text, "hi\xEF\xBF\xBD");
  const std::string text = summary.ToString();
  EXPECT_NE(text.find("5 tokens, uint16, largest id 226"), std::string::npos) << text;
  EXPECT_NE(text.find("ignored as targets: 2"), std::string::npos) << text;
  EXPECT_EQ(InspectTokenFile(path, TokenFileOptions(), nullptr).first.size(), 5u);
  files.WriteAs<uint16_t>("b.bin", {1, 300});
  ExpectUserError([&] { InspectTokenFile(files / "b.bin", TokenFileOptions(), tokenizer.get()); },
                  {"b.bin", "id 300", "vocabulary of 256"});
  // Text is no list of ids, unless one says so.
  const std::string words = files.Write("t.txt", "Load it to the line");
  ExpectUserError([&] { InspectTokenFile(words, TokenFileOptions(), nullptr); },
                  {words, "holds text", "plimsoll data tokenize " + words, "--format"});
  files.Write("t.txt", "Load it to the line.");
  EXPECT_EQ(InspectTokenFile(words, {.format = TokenFormat::kUint16}, nullptr).tokens, 10);
  const std::string unnamed = files.WriteAs<uint16_t>("tokens", {'h', 'i'});
  EXPECT_EQ(InspectTokenFile(unnamed, TokenFileOptions(), nullptr).tokens, 2);
  ExpectUserError([&] { InspectTokenFile(files / "gone.txt", TokenFileOptions(), nullptr); },
                  {"gone.txt"});
}

TEST(Tokenize, SaysWithWhatDocumentsBegin) {
  const TempFolder folder;
  WriteByteFolder(folder);
  const int32_t x = LoadTokenizer(folder.path())->TokenId("x").value();
  TokenizeOptions tokenize;
  tokenize.inputs = {folder.Write("a.txt", "x")};
  tokenize.tokenizer = folder.path();
  tokenize.out = folder.path() + "/tokens";
  const std::string file = Tokenize(tokenize, nullptr).train_files.at(0);
  EXPECT_EQ(ReadBegins(file), std::vector<int32_t>{kBegin});
  EXPECT_EQ(ReadFile(file + ".begin"), "256\n");
  const TokenFileSummary summary = InspectTokenFile(file, {}, nullptr);
  EXPECT_EQ(summary.first, (std::vector<int32_t>{kBegin, x, kEnd}));
  ExpectText(summary.ToString(), {"texts begin with ids 256\n"});

  DataOptions tokens;
  tokens.train = {{.files = {tokenize.out + "/*"}}};
  tokens.vocab = 258;
  tokens.end_tokenizer = folder.path();
  EXPECT_TRUE(OpenData(tokens).warnings.empty());

  tokenize.text_tokens.begins = false;
  tokenize.overwrite = true;
  Tokenize(tokenize, nullptr);
  EXPECT_TRUE(ReadBegins(file).empty());
  const DataSet without = OpenData(tokens);
  ASSERT_EQ(without.warnings.size(), 1u);
  ExpectText(without.warnings[0], {"data.begin: ", file, "no token", "ids 256"});
  tokens.text_tokens.begins = false;
  EXPECT_EQ(OpenData(tokens).notes.size(), 1u);

  for (const char* bad : {"", "two", "2 -1", "99999999999"}) {
    folder.Write("tokens/train_000000.bin.begin", bad);
    ExpectUserError([&] { ReadBegins(file); }, {file + ".begin", "ids of tokens"});
  }
}

}  // namespace
}  // namespace plimsoll::data
