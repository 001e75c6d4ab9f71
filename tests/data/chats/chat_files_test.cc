// Files of chats: their forms, what is refused of them, and how they are shown.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/data_commands.h"
#include "data/chats/chat_renderer.h"
#include "data/texts/encode_examples.h"
#include "data/texts/examples.h"
#include "data/tokens/dataset.h"
#include "tests/data/chats/chat_cases.h"
#include "tests/data/sources.h"
#include "tests/support/compress.h"
#include "tests/support/needs_jinja2.h"

namespace plimsoll::data {
namespace {

// Tokens of bytes: what carries loss of each example in the file, in order.
std::vector<std::string> ReadAs(const std::string& path,
                                const ChatOptions& chats = {.chat_template = kChats +
                                                                             "plain.jinja"}) {
  const auto tokenizer = LoadTokenizer("byte");
  std::vector<std::string> texts;
  ExampleReader reader(chats, *tokenizer);
  ExampleEncoder encoder(*tokenizer, "");
  ForEachExample(MappedFile(path), [&](std::string_view object, const std::string& where) {
    std::string& text = texts.emplace_back();
    encoder.Encode(reader.Read(object, where),
                   [&](std::span<const int32_t> ids, int64_t, bool carries_loss) {
                     if (carries_loss) text += '[';
                     for (const int32_t id : ids) text += static_cast<char>(id);
                     if (carries_loss) text += ']';
                   });
  });
  return texts;
}

constexpr const char* kForms[] = {
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "tool_calls": null}],
        "tools": [], "prompt": "a", "id": 3})",
    R"({"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})",
    R"({"instruction": "Add.", "input": "2, 2", "output": "4"})",
    R"({"instruction": "Sing.", "input": "", "output": "la"})",
    R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
        "completion": [{"role": "assistant", "content": "d"}]})",
    R"({"prompt": "p ", "completion": "c", "label": true, "weight": 1, "source": "a book"})",
    R"({"text": "t", "label": 0, "meta": {"a": 1}})",
    R"({"system": "s", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                                    {"role": "assistant", "content": "c", "weight": 1, "train": true}]})",
    R"({"system": "s", "conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})",
    R"({"system": "s", "instruction": "d", "output": "e", "history": [["a", "b"]]})",
    R"({"system": "s", "prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]})",
    R"({"conversations": [{"from": "system", "value": "s", "weight": null}, {"from": "human", "value": "a", "weight": 0},
                          {"from": "gpt", "value": "b", "weight": 1, "loss": true}], "weight": "1.0"})",
    R"({"instruction": "a", "input": "", "output": "b", "text": "Instruction: a Response: b"})",
    R"({"prompt": "a", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        "chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        "rejected": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "c"}], "score_chosen": 7.5})",
    R"({"prompt": "p", "completion": "c", "answer_type": "number", "text_quality": 0.3, "question_id": 4})",
};
const std::vector<std::string> kRead = {
    "User: a\nAssistant: [b\n]",
    "System: s\nUser: a\nAssistant: [b\n]",
    "User: Add.\n\n2, 2\nAssistant: [4\n]",
    "User: Sing.\nAssistant: [la\n]",
    "User: a\nAssistant: b\nUser: c\nAssistant: [d\n]",
    "p [c\n]",
    "[t\n]",
    "System: s\nUser: ab\nAssistant: [c\n]",
    "System: s\nUser: a\nAssistant: [b\n]",
    "System: s\nUser: a\nAssistant: [b\n]User: d\nAssistant: [e\n]",
    "System: s\nUser: a\nAssistant: [b\n]",
    "System: s\nUser: a\nAssistant: [b\n]",
    "User: a\nAssistant: [b\n]",
    "User: a\nAssistant: [b\n]",
    "p[c\n]",
};

TEST(ChatFiles, HaveManyForms) {
  NEEDS_JINJA2();
  const TempFolder folder;
  std::string lines, array;
  for (std::string form : kForms) {
    array += (array.empty() ? "[\n  " : ",\n  ") + form;
    for (char& c : form) {
      if (c == '\n') c = ' ';
    }
    lines += form + "\n";
  }
  EXPECT_EQ(ReadAs(folder.Write("a.jsonl", lines)), kRead);
  EXPECT_EQ(ReadAs(folder.Write("a.json", array + "\n]\n")), kRead);
  const std::vector<std::string> all = ReadAs(
      folder / "a.jsonl", {.chat_template = kChats + "plain.jinja", .loss_on = LossOn::kAll});
  EXPECT_EQ(all.at(0), "[User: a\nAssistant: b\n]");
  EXPECT_EQ(all.at(5), "[p ][c\n]");
}

TEST(ChatFiles, AreTokensLikeOtherExamples) {
  NEEDS_JINJA2();
  const TempFolder folder;
  std::string array = "[";
  for (int i = 0; i < 20; ++i) {
    array += i == 0 ? "" : ", ";
    array += R"({"messages": [{"role": "user", "content": "question"},
                              {"role": "assistant", "content": "answer"}]})";
  }
  DataOptions options;
  options.train = {{.files = {folder.Write("a.json.gz", Gzip(array + "]"))}}};
  options.tokenizer = "byte";
  options.vocab = 256;
  options.split.eval_fraction = 0.1;
  options.split.chats.chat_template = "chatml";
  CheckData(options);
  const DataSet set = OpenData(options);
  const auto targets = [](const std::vector<MixturePart>& parts) {
    const TokenSource& source = *parts.at(0).sources.at(0);
    return source.CountTargets(0, source.size());
  };
  const auto counted = std::ssize(std::string("answer<|im_end|>"));
  EXPECT_EQ(targets(set.train), 18 * counted);
  EXPECT_EQ(targets(set.eval), 2 * counted);
  // plimsoll data tokenize writes the same.
  const TokenizeResult written = Tokenize({.inputs = options.train[0].files,
                                           .exclude = {},
                                           .out = folder / "tokens",
                                           .split = options.split},
                                          nullptr);
  const auto file = OpenTokenFile(written.train_files.at(0), {});
  EXPECT_EQ(ReadAll(*file), ReadAll(*set.train[0].sources[0]));
  EXPECT_EQ(file->CountTargets(0, file->size()), 18 * counted);

  // A checksum tells other tokens from these, and the same with other losses.
  const auto checksum = [&] { return OpenData(options).train.at(0).checksum; };
  const std::string known = set.train[0].checksum;
  EXPECT_EQ(known.size(), 8u);
  EXPECT_EQ(checksum(), known);
  options.split.chats.loss_on = LossOn::kAll;
  EXPECT_NE(checksum(), known);
  options.split.chats = {.chat_template = kChats + "plain.jinja"};
  EXPECT_NE(checksum(), known);
  // Another day makes other tokens, unless the date is fixed.
  options.split.chats.chat_template =
      folder.Write("dated.jinja",
                   "{{ strftime_now('%d') }}{% for m in messages %}{{ m.role }}: "
                   "{{ m.content }}.\n{% endfor %}");
  EXPECT_EQ(checksum(), "");
  setenv("SOURCE_DATE_EPOCH", "1700000000", 1);
  EXPECT_NE(checksum(), "");
  unsetenv("SOURCE_DATE_EPOCH");

  options.split.chats.chat_template = "";
  ExpectUserError([&] { CheckData(options); }, {"data.chat_template", "chatml"});
  ExpectUserError([&] { OpenData(options); }, {"data.chat_template", "chatml"});
}

TEST(ChatFiles, MistakesNameFileAndLine) {
  const TempFolder folder;
  const auto refused = [&](const std::string& line, const std::vector<std::string>& reasons) {
    const std::string lines = folder.Write("bad.jsonl", "{\"text\": \"fine\"}\n" + line + "\n");
    std::vector<std::string> parts = {lines + ":2"};
    parts.insert(parts.end(), reasons.begin(), reasons.end());
    ExpectRefused([&] { ReadAs(lines); }, parts);
    const std::string array = folder.Write("bad.json", "[{\"text\": \"fine\"},\n" + line + "\n]");
    parts[0] = array + ":2";
    ExpectRefused([&] { ReadAs(array); }, parts);
  };
  const auto message = [](const std::string& members) {
    return R"({"messages": [{"role": "user", "content": "a"}, {)" + members + "}]}";
  };
  refused(message(R"("role": "tool", "content": "x")"),
          {"messages[1].role", "'tool'", "assistant"});
  refused(message(R"("role": "assistant", "content": null, "tool_calls": [{"id": 1}])"),
          {"messages[1].tool_calls"});
  refused(message(R"("role": "user", "content": [{"type": "image"}])"),
          {"messages[1].content", "pictures"});
  refused(message(R"("role": "assistant", "content": "x", "weight": 0)"),
          {"messages[1].weight", "count alike"});
  refused(message(R"("role": "assistant")"), {"messages[1].content"});
  refused(message(R"("role": "assistant", "content": null)"),
          {"messages[1].content", "is null", "calls of tools are not read"});
  refused(R"({"conversations": [{"from": "human", "value": null}]})",
          {"conversations[0].value", "is null"});
  refused(R"({"prompt": "", "completion": ""})",
          {"prompt and completion are both \"\"", "remove the example"});
  refused(R"({"text": ""})", {"text is \"\"", "remove the example"});
  refused(R"({"messages": [], "id": 1})", {"messages", "is empty"});
  refused(R"({"messages": "hi"})", {"messages"});
  refused(R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "f"}]})",
          {"tools"});
  refused(R"({"conversations": [{"from": "bing", "value": "a"}]})",
          {"conversations[0].from", "'bing'", "human"});
  refused(R"({"instruction": "a"})", {"output"});
  refused(R"({"instruction": "a", "output": "b", "history": [["a"]]})",
          {"history", "questions with answers"});
  refused(R"({"instruction": "a", "output": "b", "text": "c"})", {"text", "keep one"});
  refused(R"({"prompt": [{"role": "user", "content": "a"}], "completion": "b"})",
          {"prompt", "different kinds"});
  refused(R"({"id": 1})", {"completion", "messages"});
  // What changes an example's meaning.
  const std::string chat =
      R"("messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])";
  const std::pair<const char*, std::vector<std::string>> next_to_a_chat[] = {
      {R"("label": false)", {"label", "voted down"}},
      {R"("weight": 0.5)", {"weight", "count alike"}},
      {R"("train": false)", {"train", "count alike"}},
      {R"("history": [["a", "b"]])", {"history", "second text"}},
      {R"("functions": [{"name": "f"}])", {"functions", "tools"}},
      {R"("documents": ["d"])", {"documents"}},
      {R"("prompt": "another")", {"prompt", "no turn of messages"}},
      {R"("text": "more")", {"text", "keep one"}},
      {R"("content": "more")", {"content", "second text"}},
      {R"("reasoning": "more")", {"reasoning", "second text"}},
      {R"("images": ["a.png"])", {"images", "pictures"}},
      {R"("chosen": "b")", {"chosen", "preference.loss"}},
      {R"("chat_template_kwargs": {"messages": 1})", {"chat_template_kwargs.messages"}},
      {R"("chat_template_kwargs": "a")", {"chat_template_kwargs"}}};
  for (const auto& [member, parts] : next_to_a_chat) {
    refused(std::string("{") + chat + ", " + member + "}", parts);
  }
  refused(
      R"({"system": "t", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]})",
      {"system", "keep one"});
  refused(R"({"system": "s", "prompt": "p", "completion": "c"})", {"system", "list of messages"});
  refused(R"({"prompt": "p", "completion": "c", "label": false})", {"label", "voted down"});
  refused(R"({"text": "t", "title": "x", "summary": "", "prompt": "p"})",
          {"prompt", "second text"});
  refused(message(R"("role": "assistant", "content": "x", "loss": false)"),
          {"messages[1].loss", "count alike"});
  refused(R"({"prompt": "p", "completion": "c", "label": "False"})", {"label", "voted down"});
  refused(R"({"question": "q", "answer": "a"})", {"prompt", "required"});
  refused(R"({"conversations": [{"role": "user", "content": "a"}]})",
          {"conversations[0].from", "required"});
  refused(R"({"text": "t", "text_b": "u"})", {"text_b", "second text"});
  refused(R"({"messages": "[{'role': 'user', 'content': 'a'}]"})", {"messages", "tables"});
  refused(R"({"prompt": "[{\"role\": \"user\", \"content\": \"a\"}]", "completion": "b"})",
          {"prompt", "tables"});
  refused("7", {""});
}

TEST(ChatFiles, ArraysAreWhole) {
  const TempFolder folder;
  const auto refused = [&](const std::string& text, const std::string& place,
                           const std::string& reason) {
    const std::string path = folder.Write("a.json", text);
    ExpectUserError([&] { ReadAs(path); }, {path + place, reason});
  };
  refused("{\"text\": \"a\"}", ":1", "array of objects");
  refused("\n", ":2", "array of objects");
  refused("[{\"text\": \"a\"}\n", ":2", "not closed");
  refused("[{\"text\": \"a\"},\n{\"text\": \"]", ":2", "not closed");
  refused("[{\"text\": \"a\"}]\n\n[]", ":3", "something follows");
  refused("[{\"text\": \"a\"},\n\n]", ":3", "");
  EXPECT_EQ(ReadAs(folder.Write("a.json", "[\n]\n")), std::vector<std::string>());
  EXPECT_EQ(ReadAs(folder.Write("a.json", R"( [{"text": "] , \" \\"}] )")),
            std::vector<std::string>{"[] , \" \\\n]"});
}

TEST(ChatFiles, WithoutExamplesSayWhatTheyHold) {
  const TempFolder folder;
  const std::string array = folder.Write("a.json", "[\n]\n");
  const std::string blank = folder.Write("a.jsonl", "\n \n\r\n");
  const std::string one = folder.Write("b.jsonl", "\n");
  DataOptions options;
  options.tokenizer = "byte";
  options.vocab = 256;
  options.sequence = 8;
  const auto refused = [&](const std::vector<std::string>& files,
                           const std::vector<std::string>& parts) {
    options.train = {{.files = files}};
    for (const double held_out : {0.0, 0.5}) {
      options.split.eval_fraction = held_out;
      ExpectRefused([&] { OpenData(options); }, parts);
    }
    ExpectRefused([&] { OpenFiles(options, files, "--data"); }, parts);
    InspectExamplesOptions inspected;
    inspected.files = files;
    inspected.tokenizer = "byte";
    ExpectRefused([&] { InspectExamples(inspected, nullptr); }, parts);
  };
  refused({array}, {array + ": holds no examples: its array is empty;"});
  refused({blank}, {blank + ": holds no examples: its 3 lines are blank;"});
  refused({one}, {one + ": holds no examples: its only line is blank;"});
  refused({blank, one},
          {blank + ": holds no examples: its 3 lines are blank; neither does " + one});
}

TEST(ChatFiles, ATemplateWithoutChatsHasNoEffect) {
  NEEDS_JINJA2();
  const TempFolder folder;
  const std::string chats = folder.Write("chats.jsonl", std::string(kForms[2]) + "\n");
  const std::string texts = folder.Write("texts.jsonl", std::string(kForms[5]) + "\n");
  DataOptions options;
  options.tokenizer = "byte";
  options.vocab = 256;
  options.sequence = 4;
  options.split.chats.chat_template = "chatml";
  const auto unused = [&](const std::string& train, const std::string& eval = "") {
    options.train = {{.files = {train}}};
    options.eval.clear();
    if (!eval.empty()) options.eval = {eval};
    return OpenData(options).warnings;
  };
  ASSERT_EQ(unused(texts).size(), 1u);
  EXPECT_TRUE(unused(texts)[0].starts_with("data.chat_template: has no effect"));
  EXPECT_EQ(unused(folder.Write("plain.txt", "plain text")).size(), 1u);
  EXPECT_TRUE(unused(chats).empty());
  EXPECT_TRUE(unused(texts, chats).empty());
  options.split.chats.chat_template = "";
  EXPECT_TRUE(unused(texts).empty());
}

TEST(InspectExamples, ShowsWhatCarriesLoss) {
  NEEDS_JINJA2();
  const TempFolder folder;
  std::string lines;
  for (const char* text : {"a", "b", "c"}) {
    lines += Json{{"messages", Turns({{"user", text}, {"assistant", "x\033[5my"}})}}.dump() + "\n";
  }
  InspectExamplesOptions options;
  options.files = {folder.Write("a.jsonl", lines)};
  options.tokenizer = "byte";
  options.chats.chat_template = kChats + "plain.jinja";
  options.shown = 2;
  const std::string path = options.files[0];
  EXPECT_EQ(InspectExamples(options, nullptr),
            path + ":1: 26 tokens, 7 carry loss\nUser: a\nAssistant: [x\\x1b[5my\n]\n\n" + path +
                ":2: 26 tokens, 7 carry loss\nUser: b\nAssistant: [x\\x1b[5my\n]\n\n" +
                "3 examples: 78 tokens, 21 carry loss; the longest has 26 tokens\n");
  options.colored = true;
  options.shown = 1;
  EXPECT_NE(InspectExamples(options, nullptr).find("Assistant: \033[32mx\\x1b[5my\n\033[0m"),
            std::string::npos);
  options.tokenizer = "";
  ExpectUserError([&] { InspectExamples(options, nullptr); }, {"--tokenizer"});
}

}  // namespace
}  // namespace plimsoll::data
