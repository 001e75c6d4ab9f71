#include "data/tokenizers/tokenizer_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/mapped_file.h"
#include "formats/json.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;
using formats::Harmless;
using formats::KeyRule;
using formats::Read;
using formats::Refused;

constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kSpecialFile = "special_tokens_map.json";
constexpr const char* kAddedFile = "added_tokens.json";
constexpr const char* kAround = "tokens around a text are put there by the source of data";
constexpr const char* kCalls =
    "options of calls; model.sequence and the source of data say how long a sequence is";
constexpr const char* kFiles = "the files of the tokenizer's own folder are read";
constexpr const char* kTexts = "how transformers makes texts of tokens";
constexpr const char* kChats = "how transformers makes texts of chats";
constexpr const char* kSentencePiece =
    "of tokenizers read from a tokenizer.model; a tokenizer.json says itself what it does";
constexpr const char* kOrigin = "where the file comes from";

constexpr KeyRule kRules[] = {
    Read("tokenizer_class"),
    Read("added_tokens_decoder"),
    Read("additional_special_tokens"),
    Read("extra_special_tokens"),
    Read("do_lower_case"),
    Read("strip_accents"),
    Read("tokenize_chinese_chars"),
    Read("do_basic_tokenize"),
    Read("never_split"),
    Read("add_prefix_space"),
    Read("truncation_side"),
    Read("padding_side"),

    Read("add_bos_token"),
    Harmless("add_eos_token", kAround),
    Read("*_token"),
    Harmless("*_token_id", "the tokens are named, and the vocabulary has their ids"),

    Refused("split_special_tokens",
            "texts would be cut where they spell out special tokens; set it to false"),
    Refused("fix_mistral_regex",
            "it changes the pattern of tokenizer.json; let transformers write that file anew "
            "(save_pretrained) and remove the key"),
    Refused("clean_text", "control characters are removed; set it to true", "true"),
    Refused("wordpieces_prefix", "pieces that continue a word begin with ##", "\"##\""),

    Harmless("model_max_length", kCalls),
    Harmless("max_length", kCalls),
    Harmless("max_len", kCalls),
    Harmless("max_seq_length", kCalls),
    Harmless("max_model_input_sizes", kCalls),
    Harmless("add_special_tokens", kCalls),
    Harmless("pad_to_multiple_of", kCalls),
    Harmless("stride", kCalls),
    Harmless("truncation", kCalls),
    Harmless("truncation_strategy", kCalls),
    Harmless("padding", kCalls),
    Harmless("verbose", kCalls),
    Harmless("return_token_type_ids", "the model says what it reads"),
    Harmless("pad_token_type_id", "padding is not looked at"),
    Harmless("model_input_names", "the model says what it reads"),
    Harmless("trim_offsets", "offsets in the text, not ids"),

    Harmless("chat_template", kChats),
    Harmless("chat_control_tokens", kChats),
    Harmless("response_template", kChats),
    Harmless("model_specific_special_tokens", "the tokens are named by themselves, too"),
    Harmless("use_default_system_prompt", kChats),
    Harmless("response_schema", kChats),
    Harmless("clean_up_tokenization_spaces", kTexts),
    Harmless("spaces_between_special_tokens", kTexts),
    Harmless("errors", kTexts),
    Harmless("legacy", kSentencePiece),
    Harmless("from_slow", kSentencePiece),
    Harmless("sp_model_kwargs", kSentencePiece),
    Harmless("add_dummy_prefix", kSentencePiece),

    Harmless("name_or_path", kOrigin),
    Harmless("fast_tokenizer_files", kOrigin),
    Harmless("is_fast", kOrigin),
    Harmless("revision", kOrigin),
    Harmless("auto_map", kOrigin),
    Harmless("backend", kOrigin),
    Harmless("device_map", kOrigin),
    Harmless("init_inputs", kOrigin),
    Harmless("is_local", kOrigin),
    Harmless("local_files_only", kOrigin),
    Harmless("processor_class", kOrigin),
    Harmless("model_type", kOrigin),
    Harmless("tokenizer_type", kOrigin),
    Harmless("vocab_size", kOrigin),
    Harmless("transformers_version", kOrigin),
    Harmless("trust_remote_code", kOrigin),
    Harmless("use_fast", kOrigin),
    Harmless("_commit_hash", kOrigin),
    Harmless("added_tokens_file", kFiles),
    Harmless("full_tokenizer_file", kFiles),
    Harmless("merges_file", kFiles),
    Harmless("special_tokens_map_file", kFiles),
    Harmless("tokenizer_file", kFiles),
    Harmless("vocab_file", kFiles),
};

constexpr KeyRule kSpecialRules[] = {
    Read("*_token"),
    Read("additional_special_tokens"),
    Read("extra_special_tokens"),
};

// Whether a key names a token. Two keys that end in "_token" do not.
bool NamesToken(std::string_view key) {
  return key.ends_with("_token") && key != "add_bos_token" && key != "add_eos_token";
}

// Tokenizers of transformers that split words as BERT does. Their own keys, and even the defaults
// of these, take precedence over a tokenizer.json.
bool IsOfBert(std::string_view tokenizer_class) {
  return tokenizer_class == "BertTokenizer" || tokenizer_class == "BertTokenizerFast";
}

int64_t IdOf(const JsonField& tokens, const std::string& key) {
  const bool number = !key.empty() && key.size() < 10 &&
                      std::ranges::all_of(key, [](char c) { return c >= '0' && c <= '9'; });
  if (!number) tokens.Fail(fmt::format("'{}' is no id", formats::Printable(key)));
  return std::stoll(key);
}

std::optional<int64_t> IdIn(const VocabularyTokens& tokens, const std::string& content) {
  const auto added = std::ranges::find(tokens.added, content, &AddedToken::content);
  if (added != tokens.added.end()) return added->id;
  return tokens.find(content);
}

// Sets the attributes of a token in the vocabulary, or adds the token with the id that it must
// have.
void Put(AddedToken token, int64_t id, const JsonField& field, VocabularyTokens& tokens) {
  const auto known = IdIn(tokens, token.content);
  if (known && *known != id) {
    field.Fail(fmt::format("gives '{}' id {}, and the vocabulary gives it {}",
                           formats::Printable(token.content), id, *known));
  }
  if (!known && id != tokens.next) {
    field.Fail(
        fmt::format("id {} of '{}' is out of range: the vocabulary lacks this token, and "
                    "its next id is {}",
                    id, formats::Printable(token.content), tokens.next));
  }
  if (!known) ++tokens.next;
  token.id = static_cast<int32_t>(id);
  const auto before = std::ranges::find(tokens.added, token.content, &AddedToken::content);
  if (before != tokens.added.end()) {
    *before = std::move(token);
  } else {
    tokens.added.push_back(std::move(token));
  }
}

bool IsFile(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// Returns an empty path if the folder's name is empty.
std::string PathIn(const std::string& folder, const char* name) {
  return folder.empty() ? folder : (fs::path(folder) / name).string();
}

}  // namespace

std::span<const KeyRule> TokenizerConfigRules() { return kRules; }

AddedToken ReadAddedToken(const JsonField& token, bool normalizes) {
  AddedToken added;
  const bool special = token["special"].Flag(false);
  if (!normalizes && !special) token["normalized"].MustBeOff();
  added.content = token["content"].Text();
  if (added.content.empty()) token["content"].Fail("is empty");
  added.normalized = normalizes && token["normalized"].Flag(!special);
  added.lstrip = token["lstrip"].Flag(false);
  added.rstrip = token["rstrip"].Flag(false);
  added.single_word = token["single_word"].Flag(false);
  return added;
}

std::string ContentOf(const JsonField& token, std::string_view otherwise) {
  if (token.missing()) return std::string(otherwise);
  return token.json().is_object() ? token["content"].Text() : token.Text();
}

TokenizerConfig::File::File(std::string_view json, const std::string& name)
    : name(name), object(formats::JsonObject::FromText(json, name)) {}

TokenizerConfig::File::File(const std::string& path)
    : name(path),
      object(IsFile(path) ? formats::JsonObject::FromFile(path)
                          : formats::JsonObject::FromText("{}", path)) {}

JsonField TokenizerConfig::File::Fields() const {
  return JsonField(json(), name,
                   "correct it, or let transformers write the tokenizer anew (save_pretrained)");
}

TokenizerConfig::TokenizerConfig(File json, File special, File added)
    : json_(std::move(json)), special_(std::move(special)), added_(std::move(added)) {
  formats::CheckKeys(json_.object, kRules, formats::UnknownKeys::kNamed);
  json_.Fields()["add_bos_token"].Flag(false);  // checked even where it has no effect
  if (!Decodes()) formats::CheckKeys(special_.object, kSpecialRules);
}

TokenizerConfig::TokenizerConfig() : TokenizerConfig("{}", kConfigFile) {}

TokenizerConfig::TokenizerConfig(std::string_view json, const std::string& name)
    : TokenizerConfig(File(json, name), File("{}", kSpecialFile), File("{}", kAddedFile)) {}

TokenizerConfig::TokenizerConfig(const std::string& folder)
    : TokenizerConfig(File(PathIn(folder, kConfigFile)), File(PathIn(folder, kSpecialFile)),
                      File(PathIn(folder, kAddedFile))) {}

TokenizerFacts TokenizerConfig::AddTokens(VocabularyTokens& tokens) const {
  AddDescribed(tokens);
  TokenizerFacts facts;
  const auto add = [&](const File& file) {
    const JsonField fields = file.Fields();
    for (const auto& item : file.json().items()) {
      const std::string& key = item.key();
      const bool overridden = &file == &json_ && Overridden(key);
      if (NamesToken(key) && !overridden) AddNamed(fields[key.c_str()], key, tokens, facts);
    }
    for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
      const JsonField more = fields[key];
      if (more.missing()) continue;
      if (more.json().is_object()) {
        for (const auto& item : more.json().items()) {
          AddNamed(more[item.key().c_str()], item.key(), tokens, facts);
        }
        continue;
      }
      for (size_t i = 0; i < more.size(); ++i) AddNamed(more[i], "", tokens, facts);
    }
  };
  add(json_);
  if (!Decodes()) add(special_);
  const auto is_left = [&](const char* key) {
    const JsonField side = (*this)[key];
    if (side.missing() || side.Text() == "right") return false;
    if (side.Text() != "left") side.Fail("is neither left nor right");
    return true;
  };
  facts.cuts_left = is_left("truncation_side");
  facts.pads_left = is_left("padding_side");
  return facts;
}

// Whether special_tokens_map.json determines the token of a role.
bool TokenizerConfig::Overridden(const std::string& key) const {
  return !Decodes() && special_.object.Has(key);
}

void TokenizerConfig::AddDescribed(VocabularyTokens& tokens) const {
  if (Decodes()) {
    const JsonField field = (*this)["added_tokens_decoder"];
    if (field.missing()) return;
    if (!field.json().is_object()) field.Fail("is no object of ids and tokens");
    std::map<int64_t, std::string> keys;  // sorted, since new tokens get consecutive ids
    for (const auto& item : field.json().items()) keys[IdOf(field, item.key())] = item.key();
    for (const auto& [id, key] : keys) {
      const JsonField token = field[key.c_str()];
      Put(ReadAddedToken(token, tokens.normalizes), id, token, tokens);
    }
    return;
  }
  // Adds the tokens in ascending order of their ids.
  const JsonField field = added_.Fields();
  std::map<int64_t, std::string> contents;
  for (const auto& item : added_.json().items()) {
    contents[field[item.key().c_str()].Integer()] = item.key();
  }
  std::set<std::string> named;
  for (const File* file : {&json_, &special_}) {
    for (const auto& item : file->json().items()) {
      if (!NamesToken(item.key())) continue;
      named.insert(ContentOf(file->Fields()[item.key().c_str()], ""));
    }
  }
  for (const auto& [id, content] : contents) {
    if (content.empty()) field.Fail("has a token without text");
    const auto before = std::ranges::find(tokens.added, content, &AddedToken::content);
    AddedToken token;
    token.content = content;
    token.normalized = tokens.normalizes && !named.contains(content);
    if (before != tokens.added.end()) token = *before;
    Put(std::move(token), id, field[content.c_str()], tokens);
  }
}

void TokenizerConfig::AddNamed(const JsonField& token, const std::string& role,
                               VocabularyTokens& tokens, TokenizerFacts& facts) const {
  if (token.missing()) return;
  const std::string content = ContentOf(token, "");
  if (content.empty()) return;
  const auto id = IdIn(tokens, content);
  if (!id) {
    token.Fail(
        fmt::format("names '{}', a token that the vocabulary lacks", formats::Printable(content)));
  }
  if (std::ranges::find(tokens.added, content, &AddedToken::content) == tokens.added.end()) {
    AddedToken added;
    added.content = content;
    if (token.json().is_object()) {
      added = ReadAddedToken(token, tokens.normalizes);
      added.normalized = tokens.normalizes && token["normalized"].Flag(false);
    }
    added.id = static_cast<int32_t>(*id);
    tokens.added.push_back(std::move(added));
  }
  if (!role.empty()) facts.named[role] = static_cast<int32_t>(*id);
}

void TokenizerConfig::RequireWords(const BertWordOptions* words) const {
  // Options that only tokenizers without a tokenizer.json have.
  (*this)["do_basic_tokenize"].Flag(true);
  if (const JsonField never = (*this)["never_split"]; !never.missing()) never.size();
  const JsonField name = (*this)["tokenizer_class"];
  const bool of_bert = !name.missing() && IsOfBert(name.Text());
  const BertWordOptions actual = words == nullptr ? BertWordOptions() : *words;
  const auto require = [&](const char* key, bool by_default, bool does) {
    const JsonField field = (*this)[key];
    const bool asked = field.Flag(by_default);
    if (words == nullptr || asked == does) return asked;
    field.Fail(fmt::format("{} {}, and the tokenizer's own file says {}",
                           field.missing() ? "is missing, which means" : "is", asked, does));
  };
  const bool lower = require("do_lower_case", of_bert || actual.lower_case, actual.lower_case);
  require("strip_accents", of_bert ? lower : actual.strip_accents, actual.strip_accents);
  require("tokenize_chinese_chars", of_bert || actual.split_chinese, actual.split_chinese);
}

void TokenizerConfig::RequireSpaceBefore(bool space_before) const {
  const JsonField field = (*this)["add_prefix_space"];
  if (field.Flag(space_before) == space_before) return;
  field.Fail(fmt::format("is {}, and the tokenizer's own file puts {} space before a text",
                         !space_before, space_before ? "a" : "no"));
}

std::string TokenizerConfig::ClassName() const {
  const JsonField field = (*this)["tokenizer_class"];
  std::string name = field.missing() ? "" : field.Text();
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

void TokenizerConfig::RequireClass(std::span<const std::string_view> known,
                                   std::string_view in_words) const {
  const JsonField field = (*this)["tokenizer_class"];
  if (field.missing() || std::ranges::find(known, ClassName()) != known.end()) return;
  field.Fail(
      fmt::format("'{}' is not supported with {}", formats::Printable(field.Text()), in_words));
}

}  // namespace plimsoll::data
