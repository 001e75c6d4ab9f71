// Conversations (chats) of the forms that are common in files:
//
//   {"messages": [{"role": "user", "content": "2 + 2?"}, …]}                 OpenAI, transformers
//   {"conversations": [{"from": "human", "value": "2 + 2?"}, …]}             ShareGPT
//   {"instruction": "Add.", "input": "2, 2", "output": "4"}                  Alpaca
//   {"prompt": [{"role", "content"}, …], "completion": [{…}]}                TRL
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "formats/json.h"

namespace plimsoll::data {

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
  bool operator==(const ChatMessage&) const = default;
};

struct Chat {
  std::vector<ChatMessage> messages;
  size_t prompt = 0;  // the messages at the beginning whose turns never carry loss
};

// The chat of an object with the member `form`: "messages", "conversations", "instruction", or
// "completion" with lists of messages. UserErrors name the place in the file and the member: no
// messages, unknown roles, contents that are no text, tools and whatever else would be lost.
Chat ParseChat(const formats::JsonObject& object, const std::string& form);

// The messages of the member `key`, a list of {"role", "content"}; the same UserErrors.
std::vector<ChatMessage> ParseMessages(const formats::JsonObject& object, const std::string& key);

}  // namespace plimsoll::data
