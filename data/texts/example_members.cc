#include "data/texts/example_members.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "data/chats/chat.h"
#include "formats/key_rules.h"

namespace plimsoll::data {
namespace {

using formats::Harmless;
using formats::JsonObject;
using formats::KeyRule;
using formats::Read;
using formats::Refused;

constexpr const char* kSecond =
    "a second text next to the one that is read; make it a part of that, or remove it";
constexpr const char* kTools = "calls of tools are not read; leave out the chats that use them";
constexpr const char* kPairs =
    "an answer of a pair, for preference.loss; remove it, or learn from pairs alone";
constexpr const char* kMedia = "pictures, sound and films are not read; leave out the example";
constexpr const char* kNotes = "a note about the example";

// What each form reads.
constexpr KeyRule kTextRules[] = {Read("text"), Harmless("label", kNotes),
                                  Harmless("label_text", kNotes)};
constexpr KeyRule kCompletionRules[] = {
    Read("prompt"), Read("completion"),          Read("answer"), Read("response"), Read("system"),
    Read("label"),  Read("chat_template_kwargs")};
constexpr KeyRule kMessagesRules[] = {Read("messages"),
                                      Read("prompt"),
                                      Read("system"),
                                      Read("label"),
                                      Read("chosen"),
                                      Read("rejected"),
                                      Read("chat_template_kwargs")};
constexpr KeyRule kConversationsRules[] = {Read("conversations"), Read("system"), Read("label"),
                                           Read("chat_template_kwargs")};
constexpr KeyRule kInstructionRules[] = {
    Read("instruction"), Read("input"), Read("output"), Read("system"),
    Read("history"),     Read("text"),  Read("label"),  Read("chat_template_kwargs")};
constexpr KeyRule kPairRules[] = {Read("prompt"), Read("chosen"),   Read("rejected"),
                                  Read("system"), Read("messages"), Read("chat_template_kwargs")};
constexpr KeyRule kLabelledRules[] = {Read("text"), Read("text_pair"), Read("label"),
                                      Read("labels"), Harmless("label_text", kNotes)};

// What no form reads, after the form's own rules: what would be missed, then notes.
constexpr KeyRule kOtherRules[] = {
    Refused("tools", kTools),
    Refused("tool_calls", kTools),
    Refused("functions", kTools),
    Refused("function_call", kTools),
    Refused("documents", "documents next to a chat are not read; make them a part of its turns"),
    Read("weight"),
    Read("sample_weight"),
    Read("loss_weight"),
    Read("train"),
    Refused("chosen", kPairs),
    Refused("rejected", kPairs),
    Refused("chat_template_kwargs", "variables of a chat's template, and this is no chat"),
    Refused("image", kMedia),
    Refused("images", kMedia),
    Refused("audio", kMedia),
    Refused("audios", kMedia),
    Refused("video", kMedia),
    Refused("videos", kMedia),
    Refused("system", kSecond),
    Refused("system_prompt", kSecond),
    Refused("history", kSecond),
    Refused("text", kSecond),
    Refused("text_a", kSecond),
    Refused("text_b", kSecond),
    Refused("text1", kSecond),
    Refused("text2", kSecond),
    Refused("text_pair", kSecond),
    Refused("source_text", kSecond),
    Refused("content", kSecond),
    Refused("sentence", kSecond),
    Refused("sentence1", kSecond),
    Refused("sentence2", kSecond),
    Refused("premise", kSecond),
    Refused("hypothesis", kSecond),
    Refused("prompt", kSecond),
    Refused("completion", kSecond),
    Refused("answer", kSecond),
    Refused("answers", kSecond),
    Refused("response", kSecond),
    Refused("responses", kSecond),
    Refused("instruction", kSecond),
    Refused("input", kSecond),
    Refused("output", kSecond),
    Refused("question", kSecond),
    Refused("query", kSecond),
    Refused("context", kSecond),
    Refused("passage", kSecond),
    Refused("reasoning", kSecond),
    Refused("reasoning_content", kSecond),
    Refused("thinking", kSecond),
    Refused("messages", kSecond),
    Refused("conversations", kSecond),
    Refused("conversation", kSecond),
    Harmless("id", kNotes),
    Harmless("*_id", kNotes),
    Harmless("idx", kNotes),
    Harmless("*_idx", kNotes),
    Harmless("index", kNotes),
    Harmless("uuid", kNotes),
    Harmless("url", kNotes),
    Harmless("title", kNotes),
    Harmless("author", kNotes),
    Harmless("date", kNotes),
    Harmless("timestamp", kNotes),
    Harmless("source*", kNotes),
    Harmless("dataset*", kNotes),
    Harmless("split", kNotes),
    Harmless("meta", kNotes),
    Harmless("metadata", kNotes),
    Harmless("lang", kNotes),
    Harmless("language*", kNotes),
    Harmless("license", kNotes),
    Harmless("category", kNotes),
    Harmless("topic", kNotes),
    Harmless("tags", kNotes),
    Harmless("model", kNotes),
    Harmless("*_model", kNotes),
    Harmless("score*", kNotes),
    Harmless("*_score", kNotes),
    Harmless("rating*", kNotes),
    Harmless("*_tokens", kNotes),
    Harmless("*_length", kNotes),
    Harmless("*_len", kNotes),
    Harmless("*_count", kNotes),
    Harmless("num_*", kNotes),
};

std::vector<KeyRule> WithOthers(std::span<const KeyRule> own) {
  std::vector<KeyRule> rules(own.begin(), own.end());
  std::ranges::copy(kOtherRules, std::back_inserter(rules));
  return rules;
}

std::span<const KeyRule> RulesOf(const std::string& form) {
  static const std::map<std::string, std::vector<KeyRule>> rules = {
      {"text", WithOthers(kTextRules)},
      {"prompt", WithOthers(kCompletionRules)},
      {"messages", WithOthers(kMessagesRules)},
      {"conversations", WithOthers(kConversationsRules)},
      {"instruction", WithOthers(kInstructionRules)},
      {"chosen", WithOthers(kPairRules)},
      {"label", WithOthers(kLabelledRules)}};
  const auto found = rules.find(form);
  return found == rules.end() ? rules.at("prompt") : found->second;
}

// Whether a text is a list of messages as Python or JSON writes it.
bool IsWrittenList(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \n"), end = text.find_last_not_of(" \n");
  if (begin == text.npos || text[begin] != '[' || text[end] != ']') return false;
  const auto has = [&](std::string_view key) {
    return text.find(fmt::format("'{}':", key)) != text.npos ||
           text.find(fmt::format("\"{}\":", key)) != text.npos;
  };
  return (has("role") && has("content")) || (has("from") && has("value"));
}

// `prompt` next to a chat may repeat one of its turns.
void CheckPromptOf(const JsonObject& object) {
  const std::string prompt = object.GetString("prompt", "");
  if (prompt.empty()) return;
  for (const JsonObject& message : object.RequireObjects("messages")) {
    const nlohmann::json& turn = message.json();
    if (turn.contains("content") && turn.at("content") == prompt) return;
  }
  object.Fail("prompt", fmt::format("is no turn of messages, so {}", kSecond));
}

// The chosen answer of a pair may be next to the same chat as messages.
void CheckChosenOf(const JsonObject& object) {
  const nlohmann::json& json = object.json();
  const bool same = object.Has("chosen") && json.at("messages") == json.at("chosen");
  for (const char* key : {"chosen", "rejected"}) {
    if (object.Has(key) && !same) object.Fail(key, fmt::format("is {}", kPairs));
  }
}

bool IsFalse(const nlohmann::json& value) {
  return value == false || value == "false" || value == "False";
}

}  // namespace

void CheckMembers(const JsonObject& object, const std::string& form) {
  formats::CheckKeys(object, RulesOf(form), formats::UnknownKeys::kNamedOnce);
  for (const char* key : {"weight", "sample_weight", "loss_weight", "train"}) {
    if (!object.Has(key) || WeighsFully(object.json().at(key))) continue;
    object.Fail(key,
                "gives the example another weight, and all examples count alike; leave out or "
                "repeat the example");
  }
  if (form == "messages") {
    CheckPromptOf(object);
    CheckChosenOf(object);
  }
  if (form == "label" && object.Has("label") && object.Has("labels")) {
    object.Fail("labels", "is given next to label; keep one");
  }
  const bool voted = form != "label" && form != "text" && object.Has("label");
  if (voted && IsFalse(object.json().at("label"))) {
    object.Fail("label",
                "is false: the answer was voted down, and it would be learnt as a good one; leave "
                "out such examples, or make pairs of answers (preference.loss)");
  }
  if (form == "chosen" && object.Has("messages") &&
      object.json().at("messages") != object.json().at("chosen")) {
    object.Fail("messages", "is another chat than chosen; remove it");
  }
}

void RefuseWrittenLists(const JsonObject& object) {
  for (const char* key : {"messages", "conversations", "prompt", "completion", "answer", "response",
                          "chosen", "rejected"}) {
    if (!object.Has(key) || !object.json().at(key).is_string()) continue;
    if (!IsWrittenList(object.json().at(key).get_ref<const std::string&>())) continue;
    object.Fail(key,
                "is a list of messages that was written as a text, as tables do (CSV); convert the "
                "data with its lists (Parquet or JSON)");
  }
  constexpr const char* kLabel = "label";
  if (!object.Has(kLabel) || !object.json().at(kLabel).is_string()) return;
  const auto& label = object.json().at(kLabel).get_ref<const std::string&>();
  if (!label.starts_with('[') || !label.ends_with(']')) return;
  object.Fail(kLabel, "is a list that was written as a text, as tables do (CSV); write a list");
}

void RequireNoChat(const JsonObject& object) {
  for (const char* key : {"system", "chat_template_kwargs"}) {
    if (!object.Has(key) || object.json().at(key).empty() || object.json().at(key) == "") continue;
    object.Fail(key, "is not read next to a text; write the prompt as a list of messages");
  }
}

}  // namespace plimsoll::data
