// The chat template of a tokenizer: the Jinja text that says how a chat is written.
#pragma once

#include <optional>
#include <string>

#include "data/tokenizers/tokenizer.h"

namespace plimsoll::data {

// Which turns of a chat, or which part of an example, carry loss.
enum class LossOn { kAssistant, kAll };

struct ChatOptions {
  // A Jinja file, a folder with a template (ChatTemplateIn), or "chatml"; empty: the tokenizer's
  // own.
  std::string chat_template;
  LossOn loss_on = LossOn::kAssistant;
  std::string key = "data.chat_template";  // of chat_template, for messages
  // Examples are a chosen and a rejected answer to a prompt (data/texts/preference_pairs.h).
  bool pairs = false;
};

struct ChatTemplate {
  std::string name;  // for messages
  std::string text;  // Jinja
};

inline constexpr const char* kChatTemplateFile = "chat_template.jinja";

// The template in a tokenizer's folder: chat_template.jinja, else chat_template of its
// tokenizer_config.json, of a list the one called "default". nullopt: neither is there. UserError,
// which names the file, when it cannot be read; `key` names a template instead, for messages.
std::optional<ChatTemplate> ChatTemplateIn(const std::string& folder,
                                           const std::string& key = "data.chat_template");

// The one that options.chat_template, which is not empty, names. UserError, which names the key,
// when it cannot be read.
ChatTemplate ReadChatTemplate(const ChatOptions& options);

// What options.chat_template says; else the one in the tokenizer's folder. UserError, which names
// the key or the file, when it cannot be read, and without a template.
ChatTemplate FindChatTemplate(const ChatOptions& options, const Tokenizer& tokenizer);

}  // namespace plimsoll::data
