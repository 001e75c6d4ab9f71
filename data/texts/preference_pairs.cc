#include "data/texts/preference_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <ranges>
#include <utility>

#include "base/error.h"
#include "data/texts/example_members.h"
#include "formats/json.h"

namespace plimsoll::data {
namespace {

using formats::JsonObject;

bool IsList(const JsonObject& object, const char* key) { return object.json().at(key).is_array(); }

void RequireAnswers(const JsonObject& object) {
  for (const char* key : {"chosen", "rejected"}) {
    if (object.Has(key)) continue;
    object.Fail(key, "is missing; with preference.loss an example has prompt, chosen and rejected");
  }
  if (IsList(object, "chosen") != IsList(object, "rejected")) {
    object.Fail("rejected",
                "chosen and rejected are of different kinds; give two texts, or two lists of "
                "messages");
  }
}

[[noreturn]] void FailAsEqual(const JsonObject& object) {
  object.Fail("rejected",
              "is the same as chosen, so that the answers cannot be told from their prompt; give "
              "prompt, or remove the example");
}

[[noreturn]] void FailAsDifferentKinds(const JsonObject& object) {
  object.Fail("prompt",
              "prompt and chosen are of different kinds; give texts, or lists of messages");
}

// Throws the error for answers that repeat their prompt.
[[noreturn]] void FailAsRepeated(const JsonObject& object) {
  object.Fail("prompt", "chosen and rejected begin with it, too; leave it out");
}

void RequireOnce(const JsonObject& object, const PreferencePair& pair) {
  const auto begins = [&](const std::vector<ChatMessage>& answer) {
    return answer.size() >= pair.prompt_messages.size() &&
           std::ranges::equal(pair.prompt_messages,
                              answer | std::views::take(std::ssize(pair.prompt_messages)));
  };
  if (!pair.prompt_messages.empty() && begins(pair.chosen_messages) &&
      begins(pair.rejected_messages)) {
    FailAsRepeated(object);
  }
}

void SplitTexts(const JsonObject& object, PreferencePair& pair) {
  const std::string &chosen = pair.chosen, &rejected = pair.rejected;
  if (chosen == rejected) FailAsEqual(object);
  auto common = static_cast<size_t>(std::ranges::mismatch(chosen, rejected).in1 - chosen.begin());
  // Moves the place to the beginning of a UTF-8 character.
  const auto within = [&](const std::string& text) {
    return common < text.size() && (static_cast<uint8_t>(text[common]) & 0xc0) == 0x80;
  };
  while (common > 0 && (within(chosen) || within(rejected))) --common;
  if (common > 0 && common < std::min(chosen.size(), rejected.size()) &&
      chosen[common - 1] == ' ') {
    --common;
  }
  if (common == 0) {
    object.Fail("prompt", "is missing, and chosen and rejected have no beginning in common");
  }
  pair.prompt = chosen.substr(0, common);
  pair.chosen.erase(0, common);
  pair.rejected.erase(0, common);
}

void SplitChats(const JsonObject& object, PreferencePair& pair) {
  std::vector<ChatMessage>&chosen = pair.chosen_messages, &rejected = pair.rejected_messages;
  if (chosen == rejected) FailAsEqual(object);
  const auto common = std::ranges::mismatch(chosen, rejected).in1 - chosen.begin();
  if (common == 0 && object.Has("prompt")) FailAsDifferentKinds(object);
  if (common == 0) {
    object.Fail("prompt", "is missing, and chosen and rejected have no message in common");
  }
  for (const auto& [key, answer] :
       {std::pair("chosen", &chosen), std::pair("rejected", &rejected)}) {
    if (std::ssize(*answer) == common) {
      object.Fail(key, "is the beginning of the other chat; it has no answer");
    }
  }
  pair.prompt_messages.assign(chosen.begin(), chosen.begin() + common);
  chosen.erase(chosen.begin(), chosen.begin() + common);
  rejected.erase(rejected.begin(), rejected.begin() + common);
  if (!object.Has("prompt")) return;
  const std::string prompt = object.RequireString("prompt");
  if (std::ranges::find(pair.prompt_messages, prompt, &ChatMessage::content) ==
      pair.prompt_messages.end()) {
    object.Fail(
        "prompt",
        "is a text that no message is which both chats begin with; give a list of messages, "
        "or leave it out");
  }
}

PreferencePair PairOf(const JsonObject& object) {
  RefuseWrittenLists(object);
  RequireAnswers(object);
  PreferencePair pair;
  const bool prompt = object.Has("prompt");
  if (IsList(object, "chosen")) {
    pair.chosen_messages = ParseMessages(object, "chosen");
    pair.rejected_messages = ParseMessages(object, "rejected");
    if (prompt && IsList(object, "prompt")) {
      pair.prompt_messages = ParseMessages(object, "prompt");
      RequireOnce(object, pair);
    } else {
      SplitChats(object, pair);
    }
    AddSystem(object, pair.prompt_messages);
    pair.variables = ParseVariables(object);
    return pair;
  }
  RequireNoChat(object);
  pair.chosen = object.RequireString("chosen");
  pair.rejected = object.RequireString("rejected");
  if (!prompt) {
    SplitTexts(object, pair);
    return pair;
  }
  if (IsList(object, "prompt")) {
    FailAsDifferentKinds(object);
  }
  pair.prompt = object.RequireString("prompt");
  if (!pair.prompt.empty() && pair.chosen.starts_with(pair.prompt) &&
      pair.rejected.starts_with(pair.prompt)) {
    FailAsRepeated(object);
  }
  return pair;
}

}  // namespace

PreferencePair ParsePreferencePair(std::string_view text, const std::string& where) {
  const JsonObject object = JsonObject::FromText(text, where);
  PreferencePair pair = PairOf(object);
  CheckMembers(object, "chosen");
  return pair;
}

std::string WritePair(const PairTexts& pair) {
  return nlohmann::json({{"where", pair.where},
                         {"chat", pair.chat},
                         {"prompt", pair.prompt},
                         {"chosen", pair.chosen},
                         {"rejected", pair.rejected}})
      .dump();
}

// A pair is an object; other examples are arrays.
bool IsPair(std::string_view text) { return text.starts_with('{'); }

PairTexts ParsePair(std::string_view text) {
  const nlohmann::json record = nlohmann::json::parse(text);
  return PairTexts{.where = record.at("where"),
                   .chat = record.at("chat"),
                   .prompt = record.at("prompt"),
                   .chosen = record.at("chosen"),
                   .rejected = record.at("rejected")};
}

}  // namespace plimsoll::data
