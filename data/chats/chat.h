// Conversations (chats) in the formats that are common in files:
//
//   {"messages": [{"role": "user", "content": "2 + 2?"}, …]}                 OpenAI, transformers
//   {"conversations": [{"from": "human", "value": "2 + 2?"}, …]}             ShareGPT
//   {"instruction": "Add.", "input": "2, 2", "output": "4"}                  Alpaca
//   {"prompt": [{"role", "content"}, …], "completion": [{…}]}                TRL
//
// A content may be a list of text parts, [{"type": "text", "text": "2 + 2?"}, …], which are joined.
// Next to the messages, `system` is the first turn, `history` of an instruction the turns before it
// ([["2 + 1?", "3"], …]), and chat_template_kwargs an object of variables for the template.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "formats/json.h"

namespace plimsoll::data {

struct ChatMessage {
  std::string role;  // "system", "developer", "user" or "assistant"
  std::string content;
  bool operator==(const ChatMessage&) const = default;
};

struct Chat {
  std::vector<ChatMessage> messages;
  size_t prompt = 0;  // the number of messages at the beginning whose turns never carry loss
  bool added_system = false;   // the first turn is the member `system` of the example
  std::string variables = {};  // further variables of the template, a JSON object; empty: none
};

// Reads the chat in the member `form` of an object: "messages", "conversations", "instruction", or
// "completion" with lists of messages. A UserError names the place in the file and the member:
// there are no messages, a role is unknown, a content is not text, or something such as a picture
// would be lost.
Chat ParseChat(const formats::JsonObject& object, const std::string& form);

// Whether the value of a member such as weight, train or loss leaves what it is next to its full
// weight: 1 or true, also as a text that a table wrote.
bool WeighsFully(const nlohmann::json& weight);

// Reads the member `key`, a list of {"role", "content"}. Throws the same UserErrors as ParseChat.
std::vector<ChatMessage> ParseMessages(const formats::JsonObject& object, const std::string& key);

// Puts the member `system`, if any, before the messages. Throws a UserError if they begin with
// another system turn.
void AddSystem(const formats::JsonObject& object, std::vector<ChatMessage>& messages);

// The member chat_template_kwargs as text for Chat::variables. Throws a UserError if it is no
// object, or sets what a chat sets itself.
std::string ParseVariables(const formats::JsonObject& object);

}  // namespace plimsoll::data
