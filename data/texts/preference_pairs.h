// Preferences: a prompt with a chosen and a rejected answer.
//
//   {"prompt": "2 + 2 =", "chosen": " 4", "rejected": " 5"}
//   {"prompt": [{"role", "content"}, …], "chosen": [{…}], "rejected": [{…}]}     messages
//   {"chosen": [{…}, …], "rejected": [{…}, …]}      complete chats: the messages that they have in
//                                                   common at the beginning are the prompt
//   {"chosen": "…", "rejected": "…"}                texts, whose common beginning is the prompt; as
//                                                   in TRL, a space before the first difference
//                                                   belongs to the answers
//
// If a text "prompt" is next to complete chats, it must repeat a message of their common beginning,
// as in some published data. `system` is the first turn of chats. Further members:
// example_members.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/chats/chat.h"

namespace plimsoll::data {

struct PreferencePair {
  std::string prompt, chosen, rejected;  // for pairs of texts
  // For pairs of chats; none of the three is empty then.
  std::vector<ChatMessage> prompt_messages, chosen_messages, rejected_messages;
  std::string variables;  // see Chat

  bool chat() const { return !prompt_messages.empty(); }
};

// Parses a pair. UserErrors begin with `where` and name the member: a member is missing, the
// answers are of different kinds, a member is neither text nor a list of messages, or the answers
// cannot be separated from their prompt.
PreferencePair ParsePreferencePair(std::string_view object, const std::string& where);

// A pair as ExampleReader converts it. In a chat, `prompt` ends with the beginning of the
// assistant's turn, and `chosen` and `rejected` are the texts of complete chats. Otherwise `chosen`
// and `rejected` are the texts after `prompt`.
struct PairTexts {
  std::string where;
  bool chat = false;
  std::string prompt, chosen, rejected;
};
std::string WritePair(const PairTexts& pair);
// Whether the result of ExampleReader is a pair, and the pair.
bool IsPair(std::string_view text);
PairTexts ParsePair(std::string_view text);

}  // namespace plimsoll::data
