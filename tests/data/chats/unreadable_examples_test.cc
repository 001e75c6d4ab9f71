// Odd examples among many, and chats without an end.
#include "data/texts/unreadable_examples.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "app/data_commands.h"
#include "data/tokens/dataset.h"
#include "data/tokens/packed_rows.h"
#include "data/tokens/token_data.h"
#include "tests/data/byte_folder.h"
#include "tests/data/sources.h"
#include "tests/support/expect_error.h"
#include "tests/support/needs_jinja2.h"

namespace plimsoll::data {
namespace {

// 100 examples, of which every fifth cannot be read.
std::string Lines() {
  std::string lines;
  for (int i = 0; i < 100; ++i) {
    lines += i % 5 == 4 ? fmt::format("{{\"prompt\": \"{}\"}}\n", i)
                        : fmt::format("{{\"prompt\": \"{}\", \"completion\": \"c\"}}\n", i);
  }
  return lines;
}

DataOptions Options(const std::string& path) {
  DataOptions options;
  options.train = {{.files = {path}}};
  options.tokenizer = "byte";
  options.vocab = 256;
  options.sequence = 16;
  return options;
}

TEST(UnreadableExamples, AreListedAndCounted) {
  const TempFolder folder;
  const std::string path = folder.Write("a.jsonl", Lines());
  std::string message;
  try {
    OpenData(Options(path));
  } catch (const UserError& error) {
    message = error.what();
  }
  ExpectText(message, {"20 of 100 examples cannot be read", "data.unreadable: skip",
                       "\n  " + path + ":5: completion: is missing",
                       "\n  " + path + ":50: ", "\n  and 10 more"});
  EXPECT_EQ(message.find(path + ":55:"), message.npos);
}

TEST(UnreadableExamples, MayBeLeftOut) {
  const TempFolder folder;
  const std::string path = folder.Write("a.jsonl", Lines());
  for (const Packing packing : {Packing::kConcatenate, Packing::kBestFit}) {
    for (const double held_out : {0.0, 0.5}) {
      DataOptions options = Options(path);
      options.split.unreadable.skip = true;
      options.split.eval_fraction = held_out;
      options.packing = packing;
      const DataSet set = OpenData(options);
      ASSERT_EQ(set.unread.size(), 1u);
      EXPECT_EQ(set.unread[0],
                "20 of 100 examples of data.train cannot be read and are left out "
                "(data.unreadable: skip)");
      ASSERT_EQ(set.warnings.size(), 1u);
      ExpectText(set.warnings[0], {path + ":5: ", "and 10 more"});
      if (packing == Packing::kBestFit) {
        EXPECT_EQ(set.train[0].rows->counts().examples, held_out == 0 ? 80 : 40);
      }
      const TokenData source(set, {.batch = 1, .sequence = 16}, 256, false);
      EXPECT_EQ(source.Unread(), set.unread[0]);
    }
  }
}

TEST(UnreadableExamples, EndARunIfNothingIsLeft) {
  const TempFolder folder;
  const std::string path = folder.Write("a.jsonl", "{\"a\": 1}\n{\"b\": 2}\n");
  DataOptions options = Options(path);
  options.split.unreadable.skip = true;
  ExpectUserError([&] { OpenData(options); }, {path + ":1: completion: is missing"});
  ExpectUserError([&] { OpenData(Options(folder.Write("b.jsonl", "{\"a\": 1}\n"))); },
                  {"b.jsonl:1: completion: is missing"});
}

TEST(UnreadableExamples, AreShownByInspect) {
  const TempFolder folder;
  InspectExamplesOptions options;
  options.files = {folder.Write("a.jsonl", Lines())};
  options.tokenizer = "byte";
  options.shown = 0;
  ExpectText(InspectExamples(options, nullptr),
             {"100 examples: ", "20 of them cannot be read", "and 10 more"});
}

TEST(UnreadableExamples, MayBeChatsThatTheTemplateRefuses) {
  NEEDS_JINJA2();
  const TempFolder folder;
  std::string lines;
  for (const char* words : {"a", "fail", "b", "fail", "c"}) {
    lines += fmt::format(
        "{{\"messages\": [{{\"role\": \"user\", \"content\": \"q\"}}, "
        "{{\"role\": \"assistant\", \"content\": \"{}\"}}]}}\n",
        words);
  }
  DataOptions options = Options(folder.Write("a.jsonl", lines));
  options.split.unreadable.skip = true;
  options.split.chats.loss_on = LossOn::kAll;
  options.split.chats.chat_template =
      folder.Write("t.jinja",
                   "{% set words = messages[-1].content %}"
                   "{% if words == 'fail' %}{{ raise_exception('no') }}{% endif %}{{ words }}");
  const DataSet set = OpenData(options);
  std::string read;
  for (const int32_t id : ReadAll(*set.train[0].sources[0])) read += static_cast<char>(id);
  std::ranges::sort(read);  // the order of examples is shuffled
  EXPECT_EQ(read, "abc");
  ASSERT_EQ(set.unread.size(), 1u);
  ExpectText(set.unread[0], {"2 of 5 examples"});
}

class ChatEnds : public testing::Test {
 protected:
  ChatEnds() { WriteByteFolder(folder); }

  // The tokens of two chats, in the template's words after each turn of the assistant.
  DataSet Open(const std::string& after, const std::string& more = "") {
    options.tokenizer = folder.path();
    options.vocab = 258;
    options.packing = Packing::kNone;
    options.split.chats.chat_template = folder.Write(
        "t.jinja",
        "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}{% if m.role == 'assistant' %}" +
            after + "{% endif %}{{ '\\n' }}{% endfor %}" + more +
            "{% if add_generation_prompt %}a:{% endif %}");
    const std::string chat =
        R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "r"}]})";
    options.train = {{.files = {folder.Write("a.jsonl", chat + "\n" + chat + "\n")}}};
    options.sequence = 16;
    return OpenData(options);
  }
  static std::vector<int32_t> TargetsOf(const DataSet& set) {
    const TokenSource& source = *set.train[0].sources[0];
    std::vector<int32_t> targets = ReadAll(source);
    source.MaskTargets(0, source.size(), targets.data());
    std::erase(targets, kIgnoredTarget);
    return targets;
  }

  const TempFolder folder;
  DataOptions options;
};

TEST_F(ChatEnds, AreWarnedOfIfThereIsNone) {
  NEEDS_JINJA2();
  for (const LossOn loss_on : {LossOn::kAssistant, LossOn::kAll}) {
    options.split.chats.loss_on = loss_on;
    EXPECT_TRUE(Open("<e>").warnings.empty());
    EXPECT_TRUE(Open("{{ eos_token }}").warnings.empty());
    const DataSet set = Open("");
    ASSERT_EQ(set.warnings.size(), 1u);
    ExpectText(set.warnings[0], {"data.end: ", "2 of 2 chats", "\"<e>\""});
  }
}

TEST_F(ChatEnds, MayBePutThere) {
  NEEDS_JINJA2();
  const auto tokenizer = LoadTokenizer(folder.path());
  const int32_t r = tokenizer->TokenId("r").value(), line_end = tokenizer->Encode("\n").at(0);
  options.text_tokens.end = "<e>";
  const DataSet put = Open("");
  EXPECT_TRUE(put.warnings.empty());
  EXPECT_EQ(TargetsOf(put), (std::vector<int32_t>{r, line_end, kEnd, r, line_end, kEnd}));
  EXPECT_EQ(TargetsOf(Open("<e>")), (std::vector<int32_t>{r, kEnd, r, kEnd}));
  // The end of a turn that the template writes stays the only one.
  options.text_tokens.end = "z";
  EXPECT_EQ(TargetsOf(Open("<e>")), (std::vector<int32_t>{r, kEnd, r, kEnd}));
}

// The end token of the template carries loss where {% generation %} leaves it out.
TEST_F(ChatEnds, OutsideOfGenerationCarryLossIfAsked) {
  NEEDS_JINJA2();
  const int32_t r = LoadTokenizer(folder.path())->TokenId("r").value();
  const auto open = [&](const std::string& roles) {
    options = Options("");
    options.tokenizer = folder.path();
    options.vocab = 258;
    options.split.chats.chat_template = folder.Write(
        "t.jinja",
        "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
        "{% endgeneration %}<e>{% else %}{{ m.content }}{% endif %}{% endfor %}");
    std::string turns;
    for (const char role : roles) {
      turns += fmt::format("{}{{\"role\": \"{}\", \"content\": \"{}\"}}", turns.empty() ? "" : ", ",
                           role == 'u' ? "user" : "assistant", role == 'u' ? 'q' : 'r');
    }
    options.train = {{.files = {folder.Write("a.jsonl", "{\"messages\": [" + turns + "]}")}}};
  };
  open("ur");
  const DataSet warned = OpenData(options);
  ASSERT_EQ(warned.warnings.size(), 1u);
  ExpectText(warned.warnings[0], {"data.end: ", "1 of 1 chat"});
  EXPECT_EQ(TargetsOf(warned), std::vector<int32_t>{r});
  options.text_tokens.end = "<e>";
  EXPECT_EQ(TargetsOf(OpenData(options)), (std::vector<int32_t>{r, kEnd}));
  // A chat that ends with the user's turn has no last words of the assistant.
  open("uru");
  options.split.chats.loss_on = LossOn::kAll;
  EXPECT_TRUE(OpenData(options).warnings.empty());
}

// Many templates do not know the role.
TEST_F(ChatEnds, DevelopersThatTheTemplateLeavesOutAreRefused) {
  NEEDS_JINJA2();
  options = Options("");
  options.split.chats.chat_template =
      folder.Write("t.jinja",
                   "{% for m in messages %}{% if m.role != 'developer' or m.content == 'kept' %}"
                   "{{ m.content }}<e>{% endif %}{% endfor %}");
  const auto open = [&](const std::string& words) {
    options.train = {
        {.files = {folder.Write(
             "a.jsonl", fmt::format("{{\"messages\": [{{\"role\": \"developer\", \"content\": "
                                    "\"{}\"}}, {{\"role\": \"assistant\", \"content\": \"r\"}}]}}",
                                    words))}}};
    OpenData(options);
  };
  open("kept");
  ExpectUserError([&] { open("secret"); }, {"a.jsonl:1", "leaves out", "developer"});
}

// TRL gives each example's variables to the template.
TEST_F(ChatEnds, TemplatesGetVariablesOfTheChat) {
  NEEDS_JINJA2();
  options = Options("");
  options.split.chats.loss_on = LossOn::kAll;
  options.split.chats.chat_template =
      folder.Write("t.jinja", "{{ 'thinks' if thinking else 'answers' }}");
  const auto text = [&](const std::string& variables) {
    options.train = {
        {.files = {folder.Write(
             "a.jsonl", R"({"messages": [{"role": "user", "content": "q"}])" + variables + "}")}}};
    std::string read;
    for (const int32_t id : ReadAll(*OpenData(options).train[0].sources[0])) {
      read += static_cast<char>(id);
    }
    return read;
  };
  EXPECT_EQ(text(""), "answers");
  EXPECT_EQ(text(R"(, "chat_template_kwargs": {"thinking": true})"), "thinks");
}

}  // namespace
}  // namespace plimsoll::data
