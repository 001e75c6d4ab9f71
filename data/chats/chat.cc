#include "data/chats/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "formats/key_rules.h"

namespace plimsoll::data {
namespace {

using formats::JsonObject;

struct RoleName {
  std::string_view name, role;
};
constexpr std::array kRoles = std::to_array<RoleName>({
    {"system", "system"},
    {"developer", "developer"},
    {"user", "user"},
    {"assistant", "assistant"},
});
constexpr std::array kShareGptRoles = std::to_array<RoleName>({
    {"system", "system"},
    {"human", "user"},
    {"user", "user"},
    {"gpt", "assistant"},
    {"assistant", "assistant"},
});

// Members of a message next to its role and content.
constexpr const char* kTools = "calls of tools are not read; leave out the chats that use them";
constexpr std::array kNotRead = std::to_array<formats::KeyRule>({
    formats::Refused("tools", kTools),
    formats::Refused("tool_calls", kTools),
    formats::Refused("functions", kTools),
    formats::Refused("function_call", kTools),
    formats::Read("weight"),
    formats::Read("train"),
    formats::Read("loss"),
    formats::Refused("*", "a message has a role and a text alone; remove it"),
});

using MessageRules = std::array<formats::KeyRule, 2 + kNotRead.size()>;
constexpr MessageRules RulesOf(const char* role, const char* content) {
  MessageRules rules = {formats::Read(role), formats::Read(content)};
  std::ranges::copy(kNotRead, rules.begin() + 2);
  return rules;
}
constexpr MessageRules kMessagesRules = RulesOf("role", "content");
constexpr MessageRules kShareGptRules = RulesOf("from", "value");

// A format of chats: which JSON members hold a message's role and content, and how its roles are
// called.
struct MessageForm {
  const char* role;
  const char* content;
  std::span<const RoleName> roles;
  std::span<const formats::KeyRule> rules;
};
constexpr MessageForm kMessages = {"role", "content", kRoles, kMessagesRules};
constexpr MessageForm kShareGpt = {"from", "value", kShareGptRoles, kShareGptRules};

// A text, or a list of text parts.
std::string ParseContent(const JsonObject& object, const char* key) {
  const nlohmann::json& json = object.json();
  // Messages that call tools have a null content; other null contents are usually mistakes.
  if (json.contains(key) && json.at(key).is_null()) {
    object.Fail(key,
                "is null; a message has a text, which may be \"\"; write the text, or remove the "
                "message or the chat (calls of tools are not read)");
  }
  if (!object.Has(key) || !json.at(key).is_structured()) return object.RequireString(key);
  if (!json.at(key).is_array()) {
    object.Fail(key, "is an object; a message has a text, or a list of text parts");
  }
  std::string text;
  for (const JsonObject& part : object.RequireObjects(key)) {
    const std::string type = part.RequireString("type");
    if (type != "text") {
      part.Fail("type", fmt::format("'{}' is not read, only text: pictures and other parts of "
                                    "messages are not",
                                    formats::Printable(type)));
    }
    text += part.RequireString("text");
  }
  return text;
}

ChatMessage ParseMessage(const JsonObject& object, const MessageForm& form) {
  ChatMessage message;
  const std::string name = object.RequireString(form.role);
  formats::CheckKeys(object, form.rules);
  for (const RoleName& known : form.roles) {
    if (known.name == name) message.role = known.role;
  }
  if (message.role.empty()) {
    std::string names;
    for (const RoleName& known : form.roles) names += fmt::format(" {}", known.name);
    object.Fail(form.role,
                fmt::format("'{}' is unknown; known are{}", formats::Printable(name), names));
  }
  if (message.role == "assistant") {  // other turns carry no loss
    for (const char* key : {"weight", "train", "loss"}) {
      if (!object.Has(key) || WeighsFully(object.json().at(key))) continue;
      object.Fail(key,
                  "gives the turn less weight, and all turns of the assistant count alike; leave "
                  "out the chat");
    }
  }
  message.content = ParseContent(object, form.content);
  return message;
}

void AppendMessages(const JsonObject& object, const std::string& key, const MessageForm& form,
                    Chat& chat) {
  const size_t before = chat.messages.size();
  for (const JsonObject& message : object.RequireObjects(key)) {
    chat.messages.push_back(ParseMessage(message, form));
  }
  if (chat.messages.size() == before) object.Fail(key, "is empty; remove the example");
}

// Appends the turns of `history`, a list of questions with their answers.
void AppendHistory(const JsonObject& object, std::vector<ChatMessage>& messages) {
  if (!object.Has("history")) return;
  const nlohmann::json& history = object.json().at("history");
  const auto is_turn = [](const nlohmann::json& turn) {
    return turn.is_array() && turn.size() == 2 && turn[0].is_string() && turn[1].is_string();
  };
  if (!history.is_array() || !std::ranges::all_of(history, is_turn)) {
    object.Fail("history", R"(is no list of questions with answers, [["2 + 1?", "3"], …])");
  }
  for (const nlohmann::json& turn : history) {
    messages.push_back({"user", turn[0].get<std::string>()});
    messages.push_back({"assistant", turn[1].get<std::string>()});
  }
}

Chat ParseInstruction(const JsonObject& object) {
  Chat chat;
  AppendHistory(object, chat.messages);
  std::string instruction = object.RequireString("instruction");
  const std::string input = object.GetString("input", "");
  if (!input.empty()) instruction += "\n\n" + input;
  chat.messages.push_back({"user", std::move(instruction)});
  chat.messages.push_back({"assistant", object.RequireString("output")});
  return chat;
}

}  // namespace

bool WeighsFully(const nlohmann::json& weight) {
  if (!weight.is_string()) return weight == 1 || weight == true;
  const auto& text = weight.get_ref<const std::string&>();
  return text == "1" || text == "1.0" || text == "true" || text == "True";
}

Chat ParseChat(const JsonObject& object, const std::string& form) {
  Chat chat;
  if (form == "instruction") {
    chat = ParseInstruction(object);
  } else {
    if (form == "completion") {
      AppendMessages(object, "prompt", kMessages, chat);
      chat.prompt = chat.messages.size();
    }
    AppendMessages(object, form, form == "conversations" ? kShareGpt : kMessages, chat);
  }
  const size_t before = chat.messages.size();
  AddSystem(object, chat.messages);
  chat.added_system = chat.messages.size() > before;
  if (form == "completion") chat.prompt += chat.messages.size() - before;
  chat.variables = ParseVariables(object);
  return chat;
}

std::vector<ChatMessage> ParseMessages(const JsonObject& object, const std::string& key) {
  Chat chat;
  AppendMessages(object, key, kMessages, chat);
  return std::move(chat.messages);
}

void AddSystem(const JsonObject& object, std::vector<ChatMessage>& messages) {
  const std::string system = object.GetString("system", "");
  if (system.empty()) return;
  const ChatMessage turn = {"system", system};
  if (messages.empty() || messages.front().role != turn.role) {
    messages.insert(messages.begin(), turn);
  } else if (messages.front() != turn) {
    object.Fail("system", "is another text than the system turn of the messages; keep one");
  }
}

std::string ParseVariables(const JsonObject& object) {
  constexpr const char* kKey = "chat_template_kwargs";
  if (!object.Has(kKey)) return "";
  const JsonObject variables = object.RequireObject(kKey);
  for (const char* own : {"messages", "tools", "documents", "add_generation_prompt"}) {
    if (variables.Has(own)) variables.Fail(own, "is set by the chat itself; remove it");
  }
  return variables.json().empty() ? "" : variables.json().dump();
}

}  // namespace plimsoll::data
