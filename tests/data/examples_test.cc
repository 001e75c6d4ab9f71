// Prompt–answer examples: their encoding, the tokens that carry loss, and refused files.
#include "data/texts/examples.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "data/tokens/dataset.h"
#include "data/tokens/loader.h"
#include "tests/data/sources.h"
#include "tests/support/compress.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

DataOptions Options(const std::string& train) {
  DataOptions options;
  options.train = {{.files = {train}}};
  options.tokenizer = "byte";
  options.vocab = 256;
  return options;
}

// The source's bytes, with '.' in place of those that carry no loss.
std::string Marked(const TokenSource& source) {
  std::vector<int32_t> ids = ReadAll(source);
  source.MaskTargets(0, source.size(), ids.data());
  std::string text;
  for (const int32_t id : ids) text += id == kIgnoredTarget ? '.' : static_cast<char>(id);
  return text;
}

std::string Text(const TokenSource& source) {
  std::string text;
  for (const int32_t id : ReadAll(source)) text += static_cast<char>(id);
  return text;
}

constexpr const char* kLines =
    "{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n"
    "\n"
    "{\"prompt\": \"sky?\", \"answer\": \"blue\", \"source\": 7}\r\n"
    "{\"prompt\": \"\", \"response\": \"oh\"}\n"
    "{\"text\": \"all of it\"}";

TEST(Examples, AreKnownByTheirNames) {
  for (const char* name : {"a.jsonl", "A.JSONL", "a.ndjson", "a.jsonl.gz", "a.json"}) {
    EXPECT_TRUE(HoldsExamples(name)) << name;
  }
  EXPECT_FALSE(HoldsExamples("jsonl.txt"));
}

TEST(Examples, OfChatsNeedATemplate) {
  const TempFolder folder;
  const std::string path =
      folder.Write("chat.jsonl", R"({"messages": [{"role": "user", "content": "a"}]})");
  ExpectUserError([&] { OpenData(Options(path)); },
                  {"chat.jsonl:1", "data.chat_template", "chatml"});
}

TEST(Examples, OfAnArrayAreThoseOfLines) {
  const TempFolder folder;
  std::string array = kLines;
  for (size_t at = 0; (at = array.find("}\n", at)) != array.npos; ++at) array.insert(at + 1, ",");
  array.erase(array.find('\r'), 1);
  array.insert(array.find("7}") + 2, ",");
  const SourceList lines = OpenData(Options(folder.Write("qa.jsonl", kLines))).train[0].sources;
  const SourceList elements =
      OpenData(Options(folder.Write("qa.json", "[" + array + "]"))).train[0].sources;
  EXPECT_EQ(Marked(*elements[0]), Marked(*lines[0]));
}

TEST(Examples, MayCountAltogether) {
  const TempFolder folder;
  DataOptions options = Options(folder.Write("qa.jsonl", R"({"prompt": "a", "answer": "b"})"));
  options.split.chats.loss_on = LossOn::kAll;
  EXPECT_EQ(Marked(*OpenData(options).train[0].sources[0]), "ab\n");
}

TEST(Examples, CarryLossInTheirCompletions) {
  const TempFolder folder;
  const std::string path = folder.Write("qa.jsonl", kLines);
  const SourceList sources = OpenData(Options(path)).train[0].sources;
  ASSERT_EQ(sources.size(), 1u);
  const std::string marked = Marked(*sources[0]), text = Text(*sources[0]);
  ASSERT_EQ(marked.size(), text.size());
  // In a shuffled order.
  for (const auto& [whole, loss] :
       std::vector<std::pair<std::string, std::string>>{{"2+2=4\n", "....4\n"},
                                                        {"sky?blue\n", "....blue\n"},
                                                        {"oh\n", "oh\n"},
                                                        {"all of it\n", "all of it\n"}}) {
    const size_t at = text.find(whole);
    ASSERT_NE(at, text.npos) << whole;
    EXPECT_EQ(marked.substr(at, whole.size()), loss);
  }
  EXPECT_EQ(text.size(), 6u + 9 + 3 + 10);
  EXPECT_TRUE(sources[0]->has_mask());
  EXPECT_EQ(sources[0]->CountTargets(0, sources[0]->size()), 20);
}

TEST(Examples, MayBeCompressed) {
  const TempFolder folder;
  const SourceList plain = OpenData(Options(folder.Write("qa.jsonl", kLines))).train[0].sources;
  const SourceList packed =
      OpenData(Options(folder.Write("qa.jsonl.zst", Zstd(kLines)))).train[0].sources;
  EXPECT_EQ(Marked(*packed[0]), Marked(*plain[0]));
}

// SentencePiece tokenizers put a space before a text, but not before an answer.
TEST(Examples, AnswersGoOnTheirPrompts) {
  const TempFolder folder;
  DataOptions options =
      Options(folder.Write("qa.jsonl", R"({"prompt": "the load", "completion": " line"})"));
  options.tokenizer = "tests/data/tokenizers/llama2_style.json";
  options.vocab = 1000;
  const std::vector<int32_t> ids = ReadAll(*OpenData(options).train[0].sources[0]);
  EXPECT_EQ(LoadTokenizer(options.tokenizer)->Decode(ids), "the load line</s>");
}

TEST(Examples, EndWithTheDelimiterWhereTheTokenizerHasNoEnd) {
  const TempFolder folder;
  DataOptions options = Options(folder.Write("qa.jsonl", "{\"prompt\": \"a\", \"answer\": \"b\"}"));
  options.split.delimiter = "%";
  EXPECT_EQ(Marked(*OpenData(options).train[0].sources[0]), ".b\n%\n");
}

TEST(Examples, OneInTenIsHeldOut) {
  const TempFolder folder;
  std::string lines;
  for (int i = 0; i < 50; ++i) {
    lines += "{\"prompt\": \"p" + std::to_string(i) + "=\", \"answer\": \"a\"}\n";
  }
  DataOptions options = Options(folder.Write("qa.jsonl", lines));
  options.split.eval_fraction = 0.1;
  const DataSet set = OpenData(options);
  const std::string train = Text(*set.train[0].sources[0]), eval = Text(*set.eval[0].sources[0]);
  std::set<std::string> seen;
  int held_out = 0;
  for (int i = 0; i < 50; ++i) {
    const std::string prompt = "p" + std::to_string(i) + "=";
    EXPECT_NE(train.find(prompt) == train.npos, eval.find(prompt) == eval.npos) << prompt;
    held_out += eval.find(prompt) != eval.npos;
  }
  EXPECT_EQ(held_out, 5);
  EXPECT_EQ(Text(*OpenData(options).eval[0].sources[0]), eval);
}

TEST(Examples, TargetsOfABatchAreThoseOfTheAnswers) {
  const TempFolder folder;
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "{\"prompt\": \"abcde\", \"answer\": \"xy\"}\n";
  LoaderOptions options;
  options.order = DataOrder::kConsecutive;
  options.batch = 2;
  options.sequence = 16;
  const BatchLoader loader(OpenData(Options(folder.Write("qa.jsonl", lines))).train, options);
  std::vector<int32_t> tokens(32), targets(32);
  loader.Fill(0, 0, tokens.data(), targets.data());
  int counted = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == kIgnoredTarget) continue;
    ++counted;
    EXPECT_TRUE(targets[i] == 'x' || targets[i] == 'y' || targets[i] == '\n');
  }
  EXPECT_EQ(counted, loader.CountTargets(0));
  EXPECT_EQ(counted, 12);
}

TEST(Examples, MistakesNameFileAndLine) {
  const TempFolder folder;
  const auto refused = [&](const std::string& line, const std::string& reason) {
    const std::string path =
        folder.Write("bad.jsonl", "{\"text\": \"fine\"}\n" + line + "\n{\"text\": \"fine\"}\n");
    ExpectUserError([&] { OpenData(Options(path)); }, {path + ":2", reason});
  };
  refused("{\"prompt\": \"a\"}", "completion");
  refused("{\"answer\": \"a\"}", "prompt");
  refused("{\"prompt\": 3, \"answer\": \"a\"}", "prompt");
  refused("{\"prompt\": \"a\", \"answer\": \"b\", \"completion\": \"c\"}", "keep one");
  refused("{\"text\": \"a\", \"answer\": \"b\"}", "keep one");
  refused("{\"prompt\": \"\", \"answer\": \"\"}", "are both");
  refused("{\"prompt\": \"a\", ", "");
  refused("[1, 2]", "");
}

TEST(Examples, StandAlone) {
  const TempFolder folder;
  const std::string examples = folder.Write("a.jsonl", kLines);
  const std::string text = folder.Write("b.txt", "plain text");
  DataOptions options = Options(examples);
  options.train[0].files.push_back(text);
  ExpectUserError([&] { OpenData(options); }, {"data.train", "do not go together"});
  options.train[0].files = {examples};
  options.eval = {text};  // another kind is fine there
  EXPECT_EQ(Text(*OpenData(options).eval[0].sources[0]), "plain text");
  options.tokenizer = "";
  options.eval = {};
  ExpectUserError([&] { OpenData(options); }, {"data.train", "set data.tokenizer"});
}

}  // namespace
}  // namespace plimsoll::data
