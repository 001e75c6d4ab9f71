#include "trainer/save_and_resume/tokenizer_files.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/folders.h"
#include "base/mapped_file.h"
#include "base/output_file.h"
#include "data/chats/chat_template.h"
#include "data/tokenizers/tokenizer.h"
#include "models/huggingface.h"
#include "trainer/resolve/from_config.h"

namespace plimsoll::trainer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kConfigFile = "tokenizer_config.json";
// Files that may lie next to a tokenizer's vocabulary.
constexpr const char* kBesideTokenizer[] = {
    kConfigFile, "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt",
    "vocab.txt", data::kChatTemplateFile};

// A folder of a tokenizer's further chat templates.
constexpr const char* kTemplates = "additional_chat_templates";

// The longest text that the model reads, from its config.json.
std::optional<int64_t> PositionsOf(const models::Model& model) {
  const nlohmann::json config = nlohmann::json::parse(models::ConfigJson(model));
  for (const char* key : {"max_position_embeddings", "n_positions"}) {
    if (config.contains(key) && config.at(key).is_number_integer()) return config.at(key);
  }
  return std::nullopt;
}

// The text of tokenizer_config.json: the tokenizer's class in transformers, and its special tokens.
std::string ConfigText(const models::Model& model, const data::Tokenizer& tokenizer,
                       const std::string& tokenizer_class, const Json& more) {
  Json config = {{"tokenizer_class", tokenizer_class}};
  if (const auto positions = PositionsOf(model)) config["model_max_length"] = *positions;
  config.update(more);
  const auto name = [&](const char* role, std::optional<int32_t> id) {
    if (!id) return;
    std::string token;
    tokenizer.Decode(*id, &token);
    if (token.starts_with(' ')) token.erase(0, 1);  // WordPiece decodes tokens with a leading space
    config[role] = token;
  };
  struct Role {
    const char* name;
    // Candidates for the role: the first one in the vocabulary is taken, unless the files name
    // another.
    std::vector<const char*> tokens;
  };
  const bool is_encoder = !model.text_sizes();
  const std::vector<Role> roles =
      is_encoder ? std::vector<Role>{{"pad_token", {"[PAD]", "<pad>"}},
                                     {"unk_token", {"[UNK]", "<unk>"}},
                                     {"cls_token", {"[CLS]", "<s>"}},
                                     {"sep_token", {"[SEP]", "</s>"}},
                                     {"mask_token", {"[MASK]", "<mask>"}}}
                 : std::vector<Role>{{"bos_token", {"<|begin_of_text|>", "<s>"}},
                                     {"unk_token", {"<unk>"}}};
  for (const auto& [role, tokens] : roles) {
    std::optional<int32_t> id = tokenizer.Named(role);
    for (const char* token : tokens) {
      if (!id) id = tokenizer.TokenId(token);
    }
    name(role, id);
  }
  if (!is_encoder) name("eos_token", tokenizer.EndOfText());
  return config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::vector<std::string> CopiedTokenizer::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, from] : copies) names.push_back(name);
  if (!config.empty()) names.emplace_back(kConfigFile);
  if (!chat_template.empty()) names.emplace_back(data::kChatTemplateFile);
  std::ranges::sort(names);
  return names;
}

CopiedTokenizer CopiedTokenizerFor(const models::Model& model, const std::string& tokenizer,
                                   const config::DataConfig& data,
                                   const std::string& chat_template) {
  CopiedTokenizer files;
  files.chat_template = chat_template;
  if (tokenizer.empty()) return files;
  const data::TokenizerFiles found = data::FindTokenizer(tokenizer);
  if (found.vocabulary.empty()) return files;
  const std::unique_ptr<data::Tokenizer> loaded = TokenizerFor(model, tokenizer);
  const std::string begins = Apply(TextTokensFrom(data), *loaded);
  if (data.begin == config::BeginToken::kNone) files.begins = begins;
  files.end = loaded->EndOfText();
  const bool word_pieces = found.is_word_pieces();
  if (!found.merges.empty()) {
    files.copies = {{"vocab.json", found.vocabulary}, {"merges.txt", found.merges}};
  } else {
    files.copies = {{word_pieces ? "vocab.txt" : "tokenizer.json", found.vocabulary}};
  }
  if (const fs::path folder = found.folder(); !folder.empty()) {
    for (const char* name : kBesideTokenizer) {
      if (name == std::string_view(data::kChatTemplateFile) && !chat_template.empty()) continue;
      if (Exists((folder / name).string())) files.copies.emplace(name, (folder / name).string());
    }
    std::error_code none;
    for (const auto& file : fs::directory_iterator(folder / kTemplates, none)) {
      const fs::path path = file.path();
      if (path.extension() != ".jinja") continue;
      files.copies.emplace((kTemplates / path.filename()).string(), path.string());
    }
  }
  if (files.copies.contains(kConfigFile)) return files;
  if (!found.merges.empty()) {
    // Without these keys, transformers would add its end-of-document token to a vocabulary that
    // lacks it, after the model's last id.
    Json more = {{"add_prefix_space", false},
                 {"bos_token", nullptr},
                 {"unk_token", nullptr},
                 {"eos_token", nullptr}};
    if (loaded->TokenId("<|endoftext|>")) more["bos_token"] = more["unk_token"] = "<|endoftext|>";
    files.config = ConfigText(model, *loaded, "GPT2Tokenizer", more);
  } else if (word_pieces) {
    // Without tokenizer_config.json, transformers would read a vocab.txt as lower-casing.
    files.config = ConfigText(model, *loaded, "BertTokenizer", {{"do_lower_case", true}});
  } else {
    files.config = ConfigText(model, *loaded, "PreTrainedTokenizerFast", Json::object());
  }
  return files;
}

bool IsTokenizerFile(const std::string& name) {
  return name == "tokenizer.json" || name == kTemplates ||
         std::ranges::find(kBesideTokenizer, name) != std::end(kBesideTokenizer);
}

void WriteTokenizerFiles(const CopiedTokenizer& files, const std::string& folder) {
  const std::vector<std::string> names = files.Names();
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    const std::string name = file.path().filename();
    const bool stays = std::ranges::any_of(
        names, [&](const std::string& one) { return one == name || one.starts_with(name + "/"); });
    if (IsTokenizerFile(name) && !stays) fs::remove_all(file.path(), error);
  }
  const auto write = [&](const std::string& name, std::string_view text) {
    const fs::path path = fs::path(folder) / name;
    fs::create_directories(path.parent_path(), error);
    WriteWhole(path.string(), text);
  };
  for (const auto& [name, from] : files.copies) write(name, MappedFile(from).text());
  if (!files.config.empty()) write(kConfigFile, files.config);
  if (!files.chat_template.empty()) write(data::kChatTemplateFile, files.chat_template);
}

}  // namespace plimsoll::trainer
