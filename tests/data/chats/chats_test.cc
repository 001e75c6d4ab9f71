// Chats: what templates make of them, and which tokens carry loss.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/chats/chat_renderer.h"
#include "data/chats/span_tokens.h"
#include "data/texts/examples.h"
#include "formats/json.h"
#include "tests/data/chats/chat_cases.h"
#include "tests/support/expect_error.h"
#include "tests/support/needs_jinja2.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {
namespace {

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

}  // namespace
}  // namespace plimsoll::data
