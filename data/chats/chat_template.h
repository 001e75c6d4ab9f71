// The chat template of a tokenizer: a Jinja template that turns a list of messages into text.
#pragma once

#include <optional>
#include <string>

#include "data/tokenizers/tokenizer.h"

namespace plimsoll::data {

// Which turns of a chat, or which part of an example, carry loss.
enum class LossOn { kAssistant, kAll };

struct ChatOptions {
  // A Jinja file, a folder with a template (ChatTemplateIn), or "chatml". If empty, the tokenizer's
  // own template is used.
  std::string chat_template;
  LossOn loss_on = LossOn::kAssistant;
  std::string key = "data.chat_template";  // the configuration key of chat_template, for messages
  // True if each example is a prompt with a chosen and a rejected answer
  // (data/texts/preference_pairs.h).
  bool pairs = false;
};

struct ChatTemplate {
  std::string name;  // for error messages
  std::string text;  // Jinja source
};

inline constexpr const char* kChatTemplateFile = "chat_template.jinja";

// Finds the template in a tokenizer's folder: chat_template.jinja, or else chat_template of its
// tokenizer_config.json; from a list it takes the template called "default". Returns nullopt if the
// folder has no template. A UserError names the file that cannot be read, and the configuration key
// `key`, by which a user can name another template.
std::optional<ChatTemplate> ChatTemplateIn(const std::string& folder,
                                           const std::string& key = "data.chat_template");

// Reads the template that options.chat_template names; the option must not be empty. A UserError
// names the key when the template cannot be read.
ChatTemplate ReadChatTemplate(const ChatOptions& options);

// Reads the template that options.chat_template names, or else the one in the tokenizer's folder. A
// UserError names the key or the file when the template cannot be read or there is no template.
ChatTemplate FindChatTemplate(const ChatOptions& options, const Tokenizer& tokenizer);

}  // namespace plimsoll::data
