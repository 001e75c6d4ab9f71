// Chats: what templates make of them, which tokens carry loss, the forms of files, and refusals.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/data_commands.h"
#include "data/chats/chat_renderer.h"
#include "data/chats/span_tokens.h"
#include "data/texts/examples.h"
#include "data/tokens/dataset.h"
#include "formats/json.h"
#include "tests/data/sources.h"
#include "tests/support/compress.h"
#include "tests/support/expect_error.h"
#include "tests/support/needs_jinja2.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

using Json = nlohmann::json;

const std::string kChats = "tests/data/chats/";

// A folder with a tokenizer and what its configuration says.
class TokenizerFolder {
 public:
  explicit TokenizerFolder(const std::string& style = "qwen2_style",
                           const Json& config = {{"eos_token", "<|im_end|>"}}) {
    folder_.Write("tokenizer.json", ReadFile("tests/data/tokenizers/" + style + ".json"));
    folder_.Write("tokenizer_config.json", config.dump());
  }
  const std::string& path() const { return folder_.path(); }
  std::unique_ptr<Tokenizer> Load() const { return LoadTokenizer(path()); }
  const TempFolder& files() const { return folder_; }

 private:
  TempFolder folder_;
};

Chat ChatOf(const Json& messages) {
  return ParseChat(formats::JsonObject::FromText(Json{{"messages", messages}}.dump(), "chat"),
                   "messages");
}

std::string TextOf(const std::vector<TextPiece>& pieces) {
  std::string text;
  for (const TextPiece& piece : pieces) text += piece.text;
  return text;
}

std::vector<std::string> CountedIn(const std::vector<TextPiece>& pieces) {
  std::vector<std::string> counted;
  for (const TextPiece& piece : pieces) {
    if (piece.carries_loss) counted.push_back(piece.text);
  }
  return counted;
}

// The text, with what carries loss in brackets.
std::string Marked(const std::vector<TextPiece>& pieces) {
  std::string text;
  for (const TextPiece& piece : pieces) {
    text += piece.carries_loss ? "[" + piece.text + "]" : piece.text;
  }
  return text;
}

Json Turns(std::initializer_list<std::pair<const char*, const char*>> turns) {
  Json messages = Json::array();
  for (const auto& [role, content] : turns) {
    messages.push_back({{"role", role}, {"content", content}});
  }
  return messages;
}

// Expects a UserError that holds all of `parts`.
template <typename Action>
void ExpectRefused(Action&& action, const std::vector<std::string>& parts) {
  std::string said;
  ExpectUserError(
      [&] {
        try {
          action();
        } catch (const UserError& error) {
          said = error.what();
          throw;
        }
      },
      {});
  for (const std::string& part : parts)
    EXPECT_NE(said.find(part), said.npos) << part << "\n" << said;
}

const Json kTwoTurns =
    Turns({{"user", "a?"}, {"assistant", "A!"}, {"user", "b?"}, {"assistant", "B!"}});

std::vector<TextPiece> RenderedBy(const std::string& chat_template, const Json& messages,
                                  const RenderLimits& limits = {},
                                  const TokenizerFolder& folder = TokenizerFolder()) {
  const auto tokenizer = folder.Load();
  ChatRenderer renderer({.chat_template = chat_template}, *tokenizer, limits);
  return renderer.Render(ChatOf(messages), "x.jsonl:7");
}

// chats.expected.json is by transformers (make_chats.py).
TEST(Chats, AreRenderedAndEncodedAsByTransformers) {
  NEEDS_JINJA2();
  const Json cases = Json::parse(ReadFile(kChats + "chats.expected.json"));
  ASSERT_GT(cases.size(), 50u);
  int texts = 0, refusals = 0, masks = 0;
  std::string rendered;  // the template that the renderer is for
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatRenderer> renderer;
  for (const Json& one : cases) {
    SCOPED_TRACE(one.at("template").get<std::string>() + ": " + one.at("chat").get<std::string>());
    const std::string path = kChats + one.at("template").get<std::string>() + ".jinja";
    const bool marks = path.ends_with("generation.jinja");
    if (path != rendered) {
      rendered = path;
      renderer.reset();
      tokenizer = TokenizerFolder(one.at("tokenizer"), one.at("special")).Load();
      renderer = std::make_unique<ChatRenderer>(
          ChatOptions{.chat_template = path, .loss_on = marks ? LossOn::kAssistant : LossOn::kAll},
          *tokenizer);
    }
    const Chat chat = ChatOf(one.at("messages"));
    if (one.contains("error")) {
      ++refusals;
      ExpectUserError([&] { renderer->Render(chat, "x.jsonl:7"); },
                      {"x.jsonl:7", path, one.at("error").get<std::string>().substr(0, 60)});
      continue;
    }
    ++texts;
    const std::vector<TextPiece> pieces = renderer->Render(chat, "x.jsonl:7");
    EXPECT_EQ(TextOf(pieces), one.at("text").get<std::string>());
    const auto tokens = EncodePieces(pieces, *tokenizer);
    ASSERT_TRUE(tokens);
    EXPECT_EQ(tokens->ids, one.at("ids").get<std::vector<int32_t>>());
    if (!marks) continue;
    ++masks;
    std::vector<int> mask(tokens->ids.size());
    size_t begin = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      for (size_t k = begin; k < tokens->ends[i]; ++k) mask[k] = pieces[i].carries_loss;
      begin = tokens->ends[i];
    }
    auto expected = one.at("mask").get<std::vector<int>>();
    EXPECT_EQ(mask, expected);
  }
  EXPECT_GT(texts, 40);
  EXPECT_GT(refusals, 3);
  EXPECT_GT(masks, 5);
}

TEST(Chats, CountTheAssistantsWordsAndTheirEnd) {
  NEEDS_JINJA2();
  using Strings = std::vector<std::string>;
  const auto counted = [](const std::string& name, const Json& messages,
                          const TokenizerFolder& folder = TokenizerFolder()) {
    return CountedIn(RenderedBy(kChats + name + ".jinja", messages, {}, folder));
  };
  const Strings chatml = {"A!<|im_end|>", "B!<|im_end|>"};
  EXPECT_EQ(counted("qwen2", kTwoTurns), chatml);
  EXPECT_EQ(counted("generation", kTwoTurns), chatml);
  EXPECT_EQ(CountedIn(RenderedBy("chatml", kTwoTurns)), chatml);
  // The last turn alone has a thought.
  EXPECT_EQ(counted("qwen3", kTwoTurns),
            (Strings{"A!<|im_end|>", "<think>\n\n</think>\n\nB!<|im_end|>"}));
  // Thoughts of earlier turns are left out.
  EXPECT_EQ(counted("qwen3", Turns({{"user", "a?"},
                                    {"assistant", "<think>\nhm\n</think>\n\nA!"},
                                    {"user", "b?"},
                                    {"assistant", "<think>\nso\n</think>\n\nB!"}})),
            (Strings{"A!<|im_end|>", "<think>\nso\n</think>\n\nB!<|im_end|>"}));
  const TokenizerFolder llama2("llama2_style", {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  EXPECT_EQ(counted("mistral", kTwoTurns, llama2), (Strings{" A!</s>", " B!</s>"}));
  EXPECT_EQ(counted("gemma", kTwoTurns, llama2), (Strings{"A!<end_of_turn>", "B!<end_of_turn>"}));
  // The end token is after the last turn only.
  EXPECT_EQ(counted("phi3", kTwoTurns, llama2), (Strings{"A!<|end|>", "B!<|end|>\n</s>"}));
  const TokenizerFolder llama3("llama3_style",
                               {{"bos_token", "<|begin_of_text|>"}, {"eos_token", "<|eot_id|>"}});
  EXPECT_EQ(counted("llama3", kTwoTurns, llama3), (Strings{"A!<|eot_id|>", "B!<|eot_id|>"}));
  // Without an end token the line's end is what ends the words.
  EXPECT_EQ(counted("plain", kTwoTurns), (Strings{"A!\n", "B!\n"}));
  // The user's last turn carries no loss.
  EXPECT_EQ(Marked(RenderedBy(kChats + "plain.jinja",
                              Turns({{"user", "a"}, {"assistant", "b"}, {"user", "c"}}))),
            "User: a\nAssistant: [b\n]User: c\n");
}

// What carries loss by a template that is given as text, with the tokenizer's eos_token.
std::vector<std::string> CountedBy(const std::string& chat_template, const Json& messages) {
  const TempFolder folder;
  return CountedIn(RenderedBy(folder.Write("t.jinja", chat_template), messages));
}

TEST(Chats, TurnsThatATemplateRewritesAreFoundByWhatIsAroundThem) {
  NEEDS_JINJA2();
  using Strings = std::vector<std::string>;
  const auto by_qwen3 = [](const Json& messages) {
    return CountedIn(RenderedBy(kChats + "qwen3.jinja", messages));
  };
  // Thoughts that are left out of earlier turns have any form.
  for (const char* thought : {"<think>\nhm\n</think>\n\nA!", "<think>hm</think>A!",
                              "<think>\n\n</think>\n\nA!", "hm</think>\nA!", "A!"}) {
    SCOPED_TRACE(thought);
    EXPECT_EQ(by_qwen3(Turns({{"user", "a?"},
                              {"assistant", thought},
                              {"user", "A!"},
                              {"assistant", "<think>so</think>A!"}})),
              (Strings{"A!<|im_end|>", "<think>\nso\n</think>\n\nA!<|im_end|>"}));
  }
  // Two turns in a row, and words that end as a turn does.
  EXPECT_EQ(
      by_qwen3(Turns({{"user", "a?"},
                      {"assistant", "<think>hm</think>A<|im_end|>"},
                      {"assistant", "<think>hm</think>C!"},
                      {"user", "b?"},
                      {"assistant", "<think>x</think>D!"},
                      {"assistant", "E!"}})),
      (Strings{"A<|im_end|><|im_end|>", "C!<|im_end|>", "<think>\nx\n</think>\n\nD!<|im_end|>",
               "<think>\n\n</think>\n\nE!<|im_end|>"}));
  // No words: the end token is what is learned.
  EXPECT_EQ(by_qwen3(Turns({{"user", "a?"}, {"assistant", ""}, {"user", "b?"}, {"assistant", "B"}}))
                .front(),
            "<|im_end|>");
  // A prompt that begins a thought, which finished turns don't have (DeepSeek R1).
  const std::string r1 =
      "{% for m in messages %}{% if m.role == 'user' %}<U>{{ m.content }}{% else %}<A>"
      "{{ m.content.split('</think>')[-1] }}<|im_end|>{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<A><think>\n{% endif %}";
  EXPECT_EQ(CountedBy(r1, kTwoTurns), (Strings{"A!<|im_end|>", "B!<|im_end|>"}));
  EXPECT_EQ(CountedBy(r1, Turns({{"user", "a"}, {"assistant", "<think>\nx</think>A"}})),
            Strings{"A<|im_end|>"});
  // The system's words are in the last turn of the user.
  const TokenizerFolder llama2("llama2_style", {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  EXPECT_EQ(Marked(RenderedBy(kChats + "mistral_late_system.jinja",
                              Turns({{"system", "s"},
                                     {"user", "a?"},
                                     {"assistant", "A!"},
                                     {"user", "b?"},
                                     {"assistant", "B!"}}),
                              {}, llama2)),
            "<s> [INST] a? [/INST][ A!</s>] [INST] s\n\nb? [/INST][ B!</s>]");
  // Nothing is before the first turn.
  EXPECT_EQ(Marked(RenderedBy(kChats + "plain.jinja", Turns({{"assistant", "A"}, {"user", "b"}}))),
            "Assistant:[ A\n]User: b\n");
}

TEST(Chats, TurnsThatATemplateLeavesOutAreRefused) {
  NEEDS_JINJA2();
  const auto refused = [](const std::string& chat_template) {
    ExpectUserError([&] { CountedBy(chat_template, kTwoTurns); },
                    {"x.jsonl:7", "messages[1]", "leaves out this turn", "generation"});
  };
  const std::string user = "{% for m in messages %}{% if m.role == 'user' %}U {{ m.content }}\n";
  const std::string end = "{% endif %}{% endfor %}";
  refused(user + "{% elif loop.last %}A {{ m.content }}\n" + end);
  // Words of earlier turns are twice in the text.
  refused(user + "{% else %}A {% if not loop.last %}{{ m.content }} {% endif %}{{ m.content }}.\n" +
          end);
  // A text that depends on the words.
  refused(user + "{% else %}{{ m.content|length }}{% if loop.last %}.{% endif %}\n" + end);
  ExpectUserError(
      [&] {
        RenderedBy("chatml", Turns({{"user", "b"}}));
      },
      {"x.jsonl:7", "no turn of the assistant"});
}

TEST(Chats, TemplatesThatDoNotEndAreStopped) {
  NEEDS_JINJA2();
  const TempFolder folder;
  const RenderLimits limits = {
      .seconds = 1, .characters = 10'000, .memory_bytes = int64_t{512} << 20};
  const auto fails = [&](const std::string& text, const std::vector<std::string>& parts) {
    const std::string path = folder.Write("t.jinja", text);
    std::vector<std::string> all = {path};
    all.insert(all.end(), parts.begin(), parts.end());
    ExpectRefused([&] { RenderedBy(path, kTwoTurns, limits); }, all);
  };
  const std::string hundred = "{% for i in range(99999) %}{% for j in range(99999) %}";
  fails(hundred + "{% endfor %}{% endfor %}", {"x.jsonl:7", "more than 1 s"});
  fails("{{ messages|length * (10 ** (10 ** 10)) }}", {"more than 1 s"});
  fails(hundred + "words {% endfor %}{% endfor %}", {"x.jsonl:7", "longer than 10000 characters"});
  fails("{{ messages[0].content * 10 ** 9 }}", {"x.jsonl:7", "memory"});
  // Nothing is left of the sandbox's walls.
  fails("{{ messages.__class__.__mro__ }}", {"x.jsonl:7", "unsafe"});
  fails("{{ messages.append(1) }}", {"x.jsonl:7", "unsafe"});
  fails("{% for %}", {"is no chat template", "line 1"});
  fails("{% set x = 1 %}", {"x.jsonl:7", "writes nothing"});
}

TEST(Chats, OneAfterAnotherMayBeLarge) {
  NEEDS_JINJA2();
  const TokenizerFolder folder;
  const auto tokenizer = folder.Load();
  ChatRenderer renderer({.chat_template = "chatml"}, *tokenizer);
  const std::string long_text(500'000, 'x');
  for (int i = 0; i < 3; ++i) {
    const Chat chat = {.messages = {{"user", long_text}, {"assistant", long_text + "\u00e9"}}};
    EXPECT_EQ(CountedIn(renderer.Render(chat, "x")).at(0), long_text + "\u00e9<|im_end|>");
    // A refusal does not end it.
    ExpectUserError([&] { renderer.Render(ChatOf(Turns({{"user", "a"}})), "x:2"); }, {"x:2"});
  }
}

TEST(Chats, TheDateMayBeFixed) {
  NEEDS_JINJA2();
  const TempFolder folder;
  const std::string path = folder.Write("t.jinja", "{{ strftime_now('%d %b %Y') }}");
  setenv("SOURCE_DATE_EPOCH", "1700000000", 1);
  const auto tokenizer = LoadTokenizer("byte");
  ChatRenderer renderer({.chat_template = path, .loss_on = LossOn::kAll}, *tokenizer);
  unsetenv("SOURCE_DATE_EPOCH");
  EXPECT_EQ(TextOf(renderer.Render(ChatOf(kTwoTurns), "x")), "14 Nov 2023");
}

TEST(Chats, ABadDateIsNoFaultOfTheTemplate) {
  NEEDS_JINJA2();
  const auto tokenizer = LoadTokenizer("byte");
  for (const char* bad : {"yesterday", "17000000000000000000", "1e9"}) {
    setenv("SOURCE_DATE_EPOCH", bad, 1);
    std::string said;
    try {
      const ChatRenderer renderer({.chat_template = "chatml"}, *tokenizer);
    } catch (const UserError& error) {
      said = error.what();
    }
    EXPECT_TRUE(said.starts_with("SOURCE_DATE_EPOCH: '" + std::string(bad) + "'")) << said;
    EXPECT_NE(said.find("unset it"), said.npos) << said;
    EXPECT_EQ(said.find("template"), said.npos) << said;
  }
  unsetenv("SOURCE_DATE_EPOCH");
}

TEST(Chats, APromptEndsWithTheBeginningOfTheAnswer) {
  NEEDS_JINJA2();
  const auto tokenizer = TokenizerFolder().Load();
  ChatRenderer renderer({.chat_template = kChats + "qwen2.jinja"}, *tokenizer);
  // No turn of the assistant is needed, and nothing is told apart.
  const Chat asked = ChatOf(Turns({{"system", "s"}, {"user", "a?"}}));
  EXPECT_EQ(renderer.RenderPrompt(asked, "x"),
            "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na?<|im_end|>\n"
            "<|im_start|>assistant\n");
  ExpectUserError([&] { renderer.Render(asked, "x"); }, {"x", "no turn of the assistant"});
  const Chat two = ChatOf(kTwoTurns);
  EXPECT_EQ(renderer.RenderPrompt(two, "x"),
            TextOf(renderer.Render(two, "x")) + "<|im_start|>assistant\n");
  ChatRenderer strict({.chat_template = kChats + "mistral.jinja"}, *tokenizer);
  ExpectRefused(
      [&] {
        strict.RenderPrompt(ChatOf(Turns({{"user", "a"}, {"user", "b"}})), "x:3");
      },
      {"x:3", "mistral.jinja"});
}

TEST(Chats, PythonWithoutJinjaIsSaid) {
  const TempFolder folder;
  const std::string path = std::getenv("PATH");
  const auto with_python = [&](const std::string& script) {
    const std::string program = folder.Write("python3", script);
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    setenv("PATH", folder.path().c_str(), 1);
    ExpectUserError([&] { RenderedBy("chatml", kTwoTurns); }, {"apt install python3-jinja2"});
    setenv("PATH", path.c_str(), 1);
  };
  with_python("#!/bin/sh\nread line\necho '{\"missing\": \"jinja2\"}'\n");
  with_python("#!/bin/sh\nexit 127\n");
  std::filesystem::remove(folder / "python3");
  setenv("PATH", folder.path().c_str(), 1);
  ExpectUserError([&] { RenderedBy("chatml", kTwoTurns); },
                  {"python3", "apt install python3-jinja2"});
  setenv("PATH", path.c_str(), 1);
}

// The tokens of the pieces that carry loss, decoded; "?" if they cannot be told.
std::string CountedTokens(const Tokenizer& tokenizer, const std::vector<TextPiece>& pieces) {
  const auto tokens = EncodePieces(pieces, tokenizer);
  if (!tokens) return "?";
  EXPECT_EQ(tokens->ids, tokenizer.Encode(TextOf(pieces)));
  EXPECT_EQ(tokens->ends.back(), tokens->ids.size());
  std::string text;
  size_t begin = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    for (size_t k = begin; k < tokens->ends[i] && pieces[i].carries_loss; ++k) {
      tokenizer.Decode(tokens->ids[k], &text);
    }
    begin = tokens->ends[i];
  }
  return text;
}

TEST(SpanTokens, AreThoseThatBeginInThePiece) {
  const auto counted = [](const std::string& style, const std::vector<TextPiece>& pieces) {
    const std::string path = "tests/data/tokenizers/" + style;
    return CountedTokens(*LoadTokenizer(path), pieces);
  };
  const std::vector<TextPiece> turns = {
      {"<s> [INST] the load [/INST]", false}, {" the line</s>", true}, {" [INST] why", false}};
  for (const char* style :
       {"llama2_style.json", "llama2_normalized_style.json", "metaspace_first_style.json",
        "metaspace_always_style.json", "gpt2_style.json", "llama3_style.json"}) {
    EXPECT_EQ(counted(style, turns), " the line</s>") << style;
  }
  // Composed characters have other bytes than those of the text.
  EXPECT_EQ(counted("qwen2_style.json", {{"cafe\u0301 ", false}, {"A\u030a!", true}}), "\u00c5!");
  // A token over the border belongs to where it begins.
  EXPECT_EQ(counted("llama3_style.json", {{"a\n", false}, {"\nb", true}}), "b");
  EXPECT_EQ(counted("llama3_style.json", {{"a\n", true}, {"\nb", false}}), "a\n\n");
  // Of lower-cased words, pieces are told apart where they are apart.
  EXPECT_EQ(counted("wordpiece_vocab.txt", {{"THE Line! ", false}, {"The load", true}}),
            " the load");
  EXPECT_EQ(counted("wordpiece_vocab.txt", {{"THE Lo", false}, {"ad", true}}), "?");
}

TEST(ChatTemplates, AreFoundInTheTokenizersFolder) {
  const auto found = [](const TokenizerFolder& folder) {
    return FindChatTemplate({}, *folder.Load()).text;
  };
  const TokenizerFolder none;
  ExpectUserError([&] { found(none); }, {"data.chat_template", none.path(), "chatml"});
  const TokenizerFolder one("qwen2_style", {{"chat_template", "one"}});
  EXPECT_EQ(found(one), "one");
  const TokenizerFolder named(
      "qwen2_style",
      {{"chat_template", Json::array({{{"name", "tool_use"}, {"template", "tools"}},
                                      {{"name", "default"}, {"template", "usual"}}})}});
  EXPECT_EQ(found(named), "usual");
  const TokenizerFolder other(
      "qwen2_style", {{"chat_template", Json::array({{{"name", "rag"}, {"template", ""}}})}});
  ExpectUserError([&] { found(other); }, {"tokenizer_config.json", "called default"});
  one.files().Write("chat_template.jinja", "the file wins");
  EXPECT_EQ(found(one), "the file wins");
  const std::string mine = one.files().Write("mine.jinja", "mine");
  EXPECT_EQ(FindChatTemplate({.chat_template = mine}, *one.Load()).text, "mine");
  ExpectUserError([&] { FindChatTemplate({.chat_template = mine + "x"}, *one.Load()); },
                  {"data.chat_template", "mine.jinjax", "no such file"});
  // A folder is one of a tokenizer.
  const auto in_folder = [&](const TokenizerFolder& folder) {
    return FindChatTemplate({.chat_template = folder.path()}, *none.Load()).text;
  };
  EXPECT_EQ(in_folder(one), "the file wins");
  EXPECT_EQ(in_folder(named), "usual");
  ExpectUserError([&] { in_folder(none); },
                  {"data.chat_template", none.path(), "has no chat template"});
}

// Tokens of bytes: what carries loss of each example in the file, in order.
std::vector<std::string> ReadAs(const std::string& path,
                                const ChatOptions& chats = {.chat_template = kChats +
                                                                             "plain.jinja"}) {
  const auto tokenizer = LoadTokenizer("byte");
  std::vector<std::string> texts;
  ExampleReader reader(chats, *tokenizer);
  ForEachExample(MappedFile(path), [&](std::string_view object, const std::string& where) {
    std::string& text = texts.emplace_back();
    EncodeExample(reader.Read(object, where), *tokenizer, "",
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
    R"({"prompt": "p ", "completion": "c"})",
    R"({"text": "t"})",
};
const std::vector<std::string> kRead = {
    "User: a\nAssistant: [b\n]",
    "System: s\nUser: a\nAssistant: [b\n]",
    "User: Add.\n\n2, 2\nAssistant: [4\n]",
    "User: Sing.\nAssistant: [la\n]",
    "User: a\nAssistant: b\nUser: c\nAssistant: [d\n]",
    "p [c\n]",
    "[t\n]",
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
          {"messages[1].weight", "is not read"});
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
  refused(R"({"instruction": "a", "output": "b", "history": [["a", "b"]]})", {"history"});
  refused(R"({"instruction": "a", "output": "b", "text": "c"})", {"text", "keep one"});
  refused(R"({"prompt": [{"role": "user", "content": "a"}], "completion": "b"})",
          {"prompt", "different kinds"});
  refused(R"({"id": 1})", {"completion", "messages"});
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
    return OpenData(options).unused;
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
