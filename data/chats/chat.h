// Conversations (chats) in the formats that are common in files:
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
  size_t prompt = 0;  // the number of messages at the beginning whose turns never carry loss
};

// Reads the chat in the member `form` of an object: "messages", "conversations", "instruction", or
// "completion" with lists of messages. A UserError names the place in the file and the member:
// there are no messages, a role is unknown, a content is not text, or something such as a tool call
// would be lost.
Chat ParseChat(const formats::JsonObject& object, const std::string& form);

// Reads the member `key`, a list of {"role", "content"}. Throws the same UserErrors as ParseChat.
std::vector<ChatMessage> ParseMessages(const formats::JsonObject& object, const std::string& key);

}  // namespace plimsoll::data
