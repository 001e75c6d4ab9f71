#include "data/chats/chat.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

namespace plimsoll::data {
namespace {

using formats::JsonObject;

struct RoleName {
  std::string_view name, role;
};
constexpr std::array kRoles = std::to_array<RoleName>({
    {"system", "system"},
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

bool IsEmpty(const nlohmann::json& value) {
  return value.is_null() || (value.is_structured() && value.empty()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

void RefuseTools(const JsonObject& object) {
  for (const char* key : {"tools", "tool_calls", "functions", "function_call"}) {
    if (!object.Has(key) || IsEmpty(object.json().at(key))) continue;
    object.Fail(key, "calls of tools are not read; leave out the chats that use them");
  }
}

// A format of chats: which JSON members hold a message's role and content, and how its roles are
// called.
struct MessageForm {
  const char* role;
  const char* content;
  std::span<const RoleName> roles;
};
constexpr MessageForm kMessages = {"role", "content", kRoles};
constexpr MessageForm kShareGpt = {"from", "value", kShareGptRoles};

ChatMessage ParseMessage(const JsonObject& object, const MessageForm& form) {
  RefuseTools(object);
  for (const std::string& key : object.Keys()) {
    if (key == form.role || key == form.content || IsEmpty(object.json().at(key))) continue;
    object.Fail(key, fmt::format("is not read: a message has {} and {}; remove it", form.role,
                                 form.content));
  }
  ChatMessage message;
  const std::string name = object.RequireString(form.role);
  for (const RoleName& known : form.roles) {
    if (known.name == name) message.role = known.role;
  }
  if (message.role.empty()) {
    std::string names;
    for (const RoleName& known : form.roles) names += fmt::format(" {}", known.name);
    object.Fail(form.role,
                fmt::format("'{}' is unknown; known are{}", formats::Printable(name), names));
  }
  // Messages that call tools have a null content; other null contents are usually mistakes.
  if (object.json().contains(form.content) && object.json().at(form.content).is_null()) {
    object.Fail(form.content,
                "is null; a message has a text, which may be \"\"; write the text, or remove the "
                "message or the chat (calls of tools are not read)");
  }
  if (object.Has(form.content) && object.json().at(form.content).is_structured()) {
    object.Fail(form.content, "is no text; pictures and other parts of messages are not read");
  }
  message.content = object.RequireString(form.content);
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

Chat ParseInstruction(const JsonObject& object) {
  for (const char* key : {"system", "history"}) {
    if (!object.Has(key) || IsEmpty(object.json().at(key))) continue;
    object.Fail(key, "is not read next to instruction; write the chat as messages");
  }
  std::string instruction = object.RequireString("instruction");
  const std::string input = object.GetString("input", "");
  if (!input.empty()) instruction += "\n\n" + input;
  return {.messages = {{"user", instruction}, {"assistant", object.RequireString("output")}}};
}

}  // namespace

Chat ParseChat(const JsonObject& object, const std::string& form) {
  RefuseTools(object);
  if (form == "instruction") return ParseInstruction(object);
  Chat chat;
  if (form == "completion") {
    AppendMessages(object, "prompt", kMessages, chat);
    chat.prompt = chat.messages.size();
  }
  AppendMessages(object, form, form == "conversations" ? kShareGpt : kMessages, chat);
  return chat;
}

std::vector<ChatMessage> ParseMessages(const JsonObject& object, const std::string& key) {
  RefuseTools(object);
  Chat chat;
  AppendMessages(object, key, kMessages, chat);
  return std::move(chat.messages);
}

}  // namespace plimsoll::data
