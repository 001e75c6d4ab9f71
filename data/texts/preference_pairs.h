// Preferences: a prompt with an answer that was chosen and one that was rejected.
//
//   {"prompt": "2 + 2 =", "chosen": " 4", "rejected": " 5"}
//   {"prompt": [{"role", "content"}, …], "chosen": [{…}], "rejected": [{…}]}     messages
//   {"chosen": [{…}, …], "rejected": [{…}, …]}      complete chats: the messages that they have in
//                                                   common at the beginning are the prompt
//   {"chosen": "…", "rejected": "…"}                likewise; as in TRL a space before the place
//                                                   where they part belongs to the answers
//
// A text "prompt" next to complete chats repeats a message of their common beginning, as in some
// published data; another text is refused. Further members are ignored.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/chats/chat.h"

namespace plimsoll::data {

struct PreferencePair {
  std::string prompt, chosen, rejected;  // of texts
  // Of chats, in which all are not empty.
  std::vector<ChatMessage> prompt_messages, chosen_messages, rejected_messages;

  bool chat() const { return !prompt_messages.empty(); }
};

// UserErrors begin with `where` and name the member: one is missing, is of another kind than the
// other, is no text or list of messages, or the two answers cannot be told from their prompt.
PreferencePair ParsePreferencePair(std::string_view object, const std::string& where);

// What ExampleReader makes of a pair. Of a chat, `prompt` ends with the beginning of the
// assistant's turn, and `chosen` and `rejected` are the texts of complete chats; otherwise they
// follow `prompt`.
struct PairTexts {
  std::string where;
  bool chat = false;
  std::string prompt, chosen, rejected;
};
std::string WritePair(const PairTexts& pair);
// nullopt: the text is what ExampleReader makes of another example.
std::optional<PairTexts> ParsePair(std::string_view text);

}  // namespace plimsoll::data
