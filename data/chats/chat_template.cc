#include "data/chats/chat_template.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/json.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;

// The ChatML template of Qwen's chats, without a default system turn.
constexpr const char* kChatMl =
    "{%- for message in messages %}\n"
    "{{- '<|im_start|>' + message.role + '\\n' }}\n"
    "{%- if message.role == 'assistant' %}\n"
    "{%- generation %}{{- message.content + '<|im_end|>' }}{% endgeneration %}\n"
    "{%- else %}\n"
    "{{- message.content + '<|im_end|>' }}\n"
    "{%- endif %}\n"
    "{{- '\\n' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "{{- '<|im_start|>assistant\\n' }}\n"
    "{%- endif %}\n";

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

ChatTemplate ReadTemplate(const std::string& path) {
  return {.name = path, .text = std::string(MappedFile(path).text())};
}

// The template in tokenizer_config.json, whose chat_template is a string or a list of {"name",
// "template"}.
std::optional<ChatTemplate> TemplateOf(const std::string& path, const std::string& key) {
  constexpr const char* kKey = "chat_template";
  const formats::JsonObject config = formats::JsonObject::FromFile(path);
  if (!config.Has(kKey)) return std::nullopt;
  const std::string name = fmt::format("{}: {}", path, kKey);
  if (!config.json().at(kKey).is_array()) {
    return ChatTemplate{.name = name, .text = config.RequireString(kKey)};
  }
  for (const formats::JsonObject& one : config.RequireObjects(kKey)) {
    if (one.RequireString("name") != "default") continue;
    return ChatTemplate{.name = name, .text = one.RequireString("template")};
  }
  config.Fail(kKey,
              fmt::format("has no template called default; name a file that holds the one to use "
                          "with {}",
                          key));
}

}  // namespace

std::optional<ChatTemplate> ChatTemplateIn(const std::string& folder, const std::string& key) {
  const std::string file = (fs::path(folder) / kChatTemplateFile).string();
  if (Exists(file)) return ReadTemplate(file);
  const std::string config = (fs::path(folder) / "tokenizer_config.json").string();
  return Exists(config) ? TemplateOf(config, key) : std::nullopt;
}

ChatTemplate ReadChatTemplate(const ChatOptions& options) {
  if (options.chat_template == "chatml") return {.name = "chatml", .text = kChatMl};
  std::error_code ignored;
  if (fs::is_directory(options.chat_template, ignored)) {
    if (auto found = ChatTemplateIn(options.chat_template, options.key)) return *found;
    throw UserError(fmt::format(
        "{}: {}: the folder has no chat template (chat_template.jinja, or chat_template of "
        "tokenizer_config.json); name a folder that has one, a Jinja file, or chatml",
        options.key, options.chat_template));
  }
  if (!Exists(options.chat_template)) {
    throw UserError(
        fmt::format("{}: {}: no such file; give a Jinja file, a tokenizer's "
                    "folder, or chatml",
                    options.key, options.chat_template));
  }
  return ReadTemplate(options.chat_template);
}

ChatTemplate FindChatTemplate(const ChatOptions& options, const Tokenizer& tokenizer) {
  if (!options.chat_template.empty()) return ReadChatTemplate(options);
  const std::string& folder = tokenizer.facts().folder;
  if (!folder.empty()) {
    if (auto found = ChatTemplateIn(folder, options.key)) return *found;
  }
  throw UserError(fmt::format(
      "{}: chats need a template, and the tokenizer{} has none (chat_template.jinja, or "
      "chat_template of tokenizer_config.json); name a Jinja file, or chatml",
      options.key, folder.empty() ? "" : fmt::format(" in {}", folder)));
}

}  // namespace plimsoll::data
