// `plimsoll generate --chat` as users run it, and the chat template that goes along with weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "tests/support/needs_jinja2.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"
#include "trainer/language/generate_chat.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kTemplate =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
constexpr const char* kEnd = "<|im_end|>";

std::string Turn(const std::string& role, const std::string& content) {
  return "<|im_start|>" + role + "\n" + content + kEnd + "\n";
}
std::string AnswerAfter(const std::string& turns) { return turns + "<|im_start|>assistant\n"; }

// The bytes, then `added` as special tokens from 256 on.
std::string BytesAnd(const std::vector<std::string>& added) {
  json tokenizer = json::parse(ReadFile("tests/data/tokenizers/gpt2_style.json"));
  json bytes = json::object();
  for (const auto& [token, id] : tokenizer["model"]["vocab"].items()) {
    if (id < 256) bytes[token] = id;
  }
  tokenizer["model"]["vocab"] = bytes;
  tokenizer["model"]["merges"] = json::array();
  tokenizer["added_tokens"] = json::array();
  for (const std::string& token : added) {
    tokenizer["added_tokens"].push_back(
        {{"content", token}, {"id", 256 + tokenizer["added_tokens"].size()}, {"special", true}});
  }
  return tokenizer.dump();
}

// A model whose assistant answers q3 by a3 and then <|im_end|>, which no file calls an end of
// texts: eos_token is <|endoftext|>.
class ChatCommand : public testing::Test {
 protected:
  void SetUp() override {
    NEEDS_JINJA2();
    fs::create_directory(folder_ / "tokenizer");
    folder_.Write("tokenizer/tokenizer.json", BytesAnd({"<|endoftext|>", "<|im_start|>", kEnd}));
    folder_.Write("tokenizer/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
    folder_.Write("tokenizer/special_tokens_map.json", R"({"eos_token": "<|endoftext|>"})");
    folder_.Write("tokenizer/chat_template.jinja", kTemplate);
    std::string chats;
    for (int i = 0; i < 10; ++i) {
      json messages = json::array();
      for (const int digit : {i, (3 * i + 1) % 10}) {
        messages.push_back({{"role", "user"}, {"content", "q" + std::to_string(digit)}});
        messages.push_back({{"role", "assistant"}, {"content", "a" + std::to_string(digit)}});
      }
      chats += json{{"messages", messages}}.dump() + "\n";
    }
    folder_.Write("chats.jsonl", chats);
    folder_.Write("run.yaml",
                  "model: {family: llama, layers: 2, width: 32, heads: 2, sequence: 64}\n"
                  "data: {train: " +
                      folder_ / "chats.jsonl" + ", tokenizer: " + folder_ / "tokenizer" +
                      ", packing: none}\n"
                      "sample: {tokens: 8}\n"
                      "train: {steps: 300, micro_batch: 8, threads: 2}\n"
                      "optimizer: {lr: 1e-2}\n"
                      "memory: {summary: false, calibrate: false}\n");
  }

  void Train(const std::string& run, const std::vector<std::string>& sets = {}) const {
    ExpectExit(0, RunPlimsoll(WithSets(
                      {"train", folder_ / "run.yaml", "--set", "run.dir=" + folder_ / run}, sets)));
  }

  // `lines` on standard input; `options` as in a shell. Greedy unless they say a temperature.
  Outcome Talk(const std::string& model, const std::string& lines,
               const std::string& options = "") const {
    folder_.Write("lines", lines);
    const bool draws = options.find("--temperature") != options.npos;
    return RunShell("$PLIMSOLL generate " + folder_ / model + " --chat " +
                    (draws ? "" : "--temperature 0 ") + options + " < " + folder_ / "lines");
  }
  std::string Said(const std::string& model, const std::string& lines,
                   const std::string& options = "") const {
    return ExpectExit(0, Talk(model, lines, options)).out;
  }

  // What `generate --prompt` adds to the rendered turns, up to the end of the assistant's.
  std::string Continued(const std::string& model, const std::string& turns,
                        const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {
        "generate", folder_ / model, "--prompt", turns, "--temperature", "0", "--stop", kEnd};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const std::string out = ExpectExit(0, RunPlimsoll(arguments)).out;
    EXPECT_TRUE(out.starts_with(turns)) << out;
    return out.substr(std::min(turns.size(), out.size()));
  }

  const TempFolder folder_;
};

TEST_F(ChatCommand, AnswersEachLineAsTheRenderedTextIsContinued) {
  Train("run");
  const Outcome one = ExpectExit(0, Talk("run", "q3\n"), {"1 answer of 3 tokens", "arena"});
  EXPECT_EQ(one.out, "a3\n");
  const std::string first = Turn("user", "q3");
  EXPECT_EQ(one.out, Continued("run", AnswerAfter(first)));

  const std::string both = AnswerAfter(first + Turn("assistant", "a3") + Turn("user", "q5"));
  const std::string second = Continued("run", both);
  EXPECT_EQ(Said("run", "q3\nq5\n"), "a3\n" + second);
  EXPECT_EQ(second, "a5\n");
  // The conversation ends at an empty line, and without a last line end.
  EXPECT_EQ(Said("run", "q3\n\nq5\n"), "a3\n");
  EXPECT_EQ(Said("run", "q3\r\nq5"), "a3\n" + second);
  EXPECT_EQ(Said("run", ""), "");

  const std::string system = Turn("system", "s");
  EXPECT_EQ(Said("run", "q3\n", "--system s"), Continued("run", AnswerAfter(system + first)));
  // --stop ends answers, too.
  EXPECT_EQ(
      Said("run", "q3\nq5\n", "--stop 3"),
      "a\n" + Continued("run", AnswerAfter(first + Turn("assistant", "a") + Turn("user", "q5")),
                        {"--stop", "3"}));
}

TEST_F(ChatCommand, DrawsRepeatably) {
  Train("run", {"train.steps=1"});
  const std::string options = "--temperature 1 --tokens 5 --seed 4";
  const std::string once = Said("run", "q3\nq3\n", options);
  EXPECT_EQ(once, Said("run", "q3\nq3\n", options));
  EXPECT_NE(once, Said("run", "q3\nq3\n", "--temperature 1 --tokens 5 --seed 40"));
}

TEST_F(ChatCommand, LeavesOutTheOldestTurnsBeyondTheContext) {
  Train("run");
  const std::string third = Turn("user", "q7"), prompt = AnswerAfter(third);
  // A turn takes 10 tokens, the beginning of the answer 11, an answer at most 8 - 1 more.
  const std::string options = "--tokens 8 --sequence 32";
  const Outcome cut = Talk("run", "q3\nq5\nq7\n", options);
  ExpectExit(0, cut, {"longer than the context of 32 tokens", "its oldest 2 turns are left out"});
  EXPECT_EQ(cut.out, "a3\na5\n" + Continued("run", prompt, {"--tokens", "8"}));
  const Outcome system = Talk("run", "q5\nq7\n", "--tokens 8 --sequence 48 --system s");
  ExpectExit(0, system, {"its oldest 2 turns"});
  const std::string kept = AnswerAfter(Turn("system", "s") + third);
  EXPECT_THAT(system.out, testing::EndsWith("\n" + Continued("run", kept, {"--tokens", "8"})));
  EXPECT_THAT(ExpectExit(0, Talk("run", "q3\nq5\n")).err, Not(HasSubstr("left out")));

  // Prompt and answer fill the context.
  const Outcome full = Talk("run", "q7\n", "--sequence 21");
  ExpectExit(0, full, {"the answer is cut off"});
  EXPECT_EQ(full.out, "a\n");
  ExpectRefusal(Talk("run", "q7\n", "--sequence 20"), {"standard input:1", "21 tokens", "20"});
}

TEST_F(ChatCommand, TheTemplateGoesAlong) {
  const std::string own = std::string(kTemplate) + "{# of the run #}";
  folder_.Write("own.jinja", own);
  Train("run", {"data.chat_template=" + folder_ / "own.jinja", "save.every=300"});
  const std::string snapshot = "run/snapshots/step-000000300";
  const auto expect_all = [&](const std::string& model) {
    EXPECT_EQ(folder_.Read(model + "/chat_template.jinja"), own) << model;
    for (const char* file : {"special_tokens_map.json", "tokenizer_config.json"}) {
      EXPECT_EQ(folder_.Read(model + "/" + file), folder_.Read(std::string("tokenizer/") + file));
    }
  };
  expect_all("run/model");
  const auto export_to = [&](const std::string& from, const std::string& to) {
    const Outcome outcome =
        ExpectExit(0, RunPlimsoll({"export", folder_ / from, "--to", folder_ / to}));
    EXPECT_THAT(outcome.out, HasSubstr("chats: chat_template.jinja, from data.chat_template"));
    expect_all(to);
  };
  export_to("run", "exported");
  export_to(snapshot, "of-snapshot");
  for (const std::string& model :
       {std::string("run"), std::string("run/model"), std::string("exported"), snapshot}) {
    EXPECT_EQ(Said(model, "q3\nq5\n"), "a3\na5\n") << model;
  }
  // The copy is also used for a file that is gone, and for a tokenizer without a template.
  fs::remove(folder_ / "own.jinja");
  fs::remove(folder_ / "tokenizer/chat_template.jinja");
  EXPECT_EQ(Said("run", "q3\n"), "a3\n");
  export_to("run", "later");
  EXPECT_EQ(Said("exported", "q3\n", "--tokenizer " + folder_ / "tokenizer"), "a3\n");
  // Without a copy nothing is written, and a warning says why.
  const Outcome lost = RunPlimsoll({"export", folder_ / snapshot, "--to", folder_ / "lost"});
  ExpectExit(0, lost, {"no chat_template.jinja", "data.chat_template", "own.jinja"});
  EXPECT_THAT(folder_.Names("lost"), Not(Contains("chat_template.jinja")));
}

// Of bytes the template's end of a turn is text.
TEST_F(ChatCommand, TalksInBytes) {
  Train("bytes", {"data.tokenizer=byte", "data.chat_template=chatml", "train.steps=1"});
  EXPECT_THAT(folder_.Names("bytes/model"),
              testing::ElementsAre("chat_template.jinja", "config.json", "model.safetensors"));
  const std::string prompt = "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n";
  for (const char* model : {"bytes", "bytes/model"}) {
    EXPECT_EQ(Said(model, "q\n", "--tokens 9 --sequence 64 --tokenizer byte"),
              Continued("bytes", prompt, {"--tokens", "9", "--sequence", "64"}));
  }
}

TEST_F(ChatCommand, RefusesWhatItCannotDo) {
  Train("run", {"train.steps=1"});
  fs::remove(folder_ / "run/model/chat_template.jinja");
  ExpectRefusal(Talk("run/model", "q\n"), {"--chat-template", "has none", "chatml"});
  ExpectRefusal(Talk("run", "q\n", "--chat-template " + folder_ / "none.jinja"),
                {"--chat-template", "none.jinja: no such file"});
  const std::string no_system =
      " --chat-template " + folder_.Write("no_system.jinja",
                                          "{% if messages[0].role == 'system' %}"
                                          "{{ raise_exception('no system here') }}{% endif %}" +
                                              std::string(kTemplate));
  ExpectRefusal(Talk("run", "q\n", "--system s" + no_system),
                {"--system", "no_system.jinja", "no system here"});
  const std::string rude =
      " --chat-template " + folder_.Write("rude.jinja",
                                          "{% if 'x' in messages[-1].content %}"
                                          "{{ raise_exception('no x') }}{% endif %}" +
                                              std::string(kTemplate));
  ExpectExit(2, Talk("run", "q\nx\n", rude), {"standard input:2", "rude.jinja", "no x"});
  ExpectExit(2, Talk("run", "q\n\xff\n"), {"standard input:2", "UTF-8"});
  ExpectRefusal(Talk("run", "q\n", "--prompt x"), {"--prompt", "--chat"});
  ExpectRefusal(Talk("run", "q\n", "--count 2"), {"--count", "--chat"});
  ExpectRefusal(RunPlimsoll({"generate", folder_ / "run", "--system", "s"}),
                {"--system", "generate " + folder_ / "run" + " --chat"});
  ExpectRefusal(RunPlimsoll({"generate", folder_ / "run", "--chat-template", "chatml"}),
                {"--chat-template", "--chat"});
  ExpectRefusal(RunShell("PATH=" + folder_ / "empty" + " $PLIMSOLL generate " + folder_ / "run" +
                         " --chat < " + folder_ / "lines"),
                {"python3", "apt install python3-jinja2"});
}

// What templates write around the words of the assistant.
TEST(TurnMarks, AreFoundByRendering) {
  NEEDS_JINJA2();
  const TempFolder folder;
  folder.Write("tokenizer.json", BytesAnd({"</s>", "<|end|>", "<|endoftext|>"}));
  const auto tokenizer = data::LoadTokenizer(folder.path()), bytes = data::MakeByteTokenizer();
  const auto marks_of = [&](const data::Tokenizer& of, const std::string& assistant,
                            const std::string& prompt, const std::string& at_end = "") {
    const std::string path = folder.Write(
        "template.jinja", "{% for m in messages %}{% if m.role == 'assistant' %}" + assistant +
                              "{% else %}[INST]{{ m.content }}[/INST]{% endif %}{% endfor %}" +
                              "{% if add_generation_prompt %}" + prompt + "{% else %}" + at_end +
                              "{% endif %}");
    data::ChatOptions options;
    options.chat_template = path;
    options.loss_on = data::LossOn::kAll;
    data::ChatRenderer renderer(options, of);
    return trainer::FindTurnMarks(renderer, of, std::nullopt);
  };
  const trainer::TurnMarks llama = marks_of(*tokenizer, "{{ ' ' + m.content }} </s>", "");
  EXPECT_EQ(llama.lead, " ");
  EXPECT_EQ(llama.end, 256);
  EXPECT_EQ(llama.stop, "");
  const trainer::TurnMarks phi =
      marks_of(*tokenizer, "A:{{ m.content }}<|end|>\n", "A:", "<|endoftext|>");
  EXPECT_EQ(phi.lead, "");
  EXPECT_EQ(phi.end, 257);
  EXPECT_EQ(marks_of(*tokenizer, "{{ m.content }}</s><|endoftext|>", "").end, 256);
  const trainer::TurnMarks thinking =
      marks_of(*tokenizer, "A:<think>\n</think>\n{{ m.content }}<|end|>", "A:");
  EXPECT_EQ(thinking.lead, "");  // no white space alone
  EXPECT_EQ(thinking.end, 257);
  const trainer::TurnMarks plain = marks_of(*tokenizer, "A: {{ m.content }}\n", "A:");
  EXPECT_EQ(plain.lead, " ");
  EXPECT_EQ(plain.end, std::nullopt);
  EXPECT_EQ(plain.stop, "");
  const trainer::TurnMarks text = marks_of(*bytes, "{{ m.content }}</s> ", "");
  EXPECT_EQ(text.end, std::nullopt);
  EXPECT_EQ(text.stop, "</s>");
}

}  // namespace
}  // namespace plimsoll
