#include "data/tokenizers/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "data/tokenizers/begin_tokens.h"
#include "data/tokenizers/bpe_tokenizer.h"
#include "data/tokenizers/json_field.h"
#include "data/tokenizers/wordpiece.h"
#include "formats/json.h"

namespace plimsoll::data {
namespace {

using Json = nlohmann::json;
using Field = JsonField;

std::vector<std::pair<std::string, int64_t>> ReadVocab(const Field& field) {
  if (!field.json().is_object()) field.Fail("is no object of tokens and ids");
  std::vector<std::pair<std::string, int64_t>> vocab;
  for (const auto& item : field.json().items()) {
    if (!item.value().is_number_integer())
      field.Fail(fmt::format("'{}' has no integer id", formats::Printable(item.key())));
    vocab.emplace_back(item.key(), item.value().get<int64_t>());
  }
  return vocab;
}

// Adds a merge, written as "left right" (GPT-2) or ["left", "right"].
void AddMerge(const Field& field, BpeVocabulary* vocabulary) {
  if (field.json().is_array()) {
    if (field.size() != 2) field.Fail("is no pair");
    vocabulary->AddMerge(field[size_t{0}].Text(), field[1].Text(), field.path());
    return;
  }
  const std::string& text = field.Text();
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    field.Fail("is no pair");
  }
  vocabulary->AddMerge(text.substr(0, space), text.substr(space + 1), field.path());
}

// Old files have no model type, but only WordPiece has this key.
bool IsWordPiece(const Field& model) {
  if (!model["type"].missing()) return model["type"].Text() == "WordPiece";
  return !model["max_input_chars_per_word"].missing();
}

BpeDescription ReadModel(const Field& model, const std::string& name) {
  const Field type = model["type"];
  if (!type.missing() && type.Text() != "BPE")
    type.Fail(fmt::format("'{}' is not supported", formats::Printable(type.Text())));
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    model[key].MustBeOff();
  }
  using Spelling = BpeVocabulary::Spelling;
  const bool byte_fallback = model["byte_fallback"].Flag(false);
  if (byte_fallback) model["ignore_merges"].MustBeOff();
  // With byte fallback, no text is unknown, so unk_token and fuse_unk have no effect.
  BpeVocabulary vocabulary(name, ReadVocab(model["vocab"]),
                           byte_fallback ? Spelling::kCharacters : Spelling::kByteLevel);
  const Field merges = model["merges"];
  for (size_t i = 0; i < merges.size(); ++i) AddMerge(merges[i], &vocabulary);
  if (model["ignore_merges"].Flag(false)) vocabulary.IgnoreMerges();
  return vocabulary.Take();
}

const std::string& NotEmpty(const Field& field) {
  if (field.Text().empty()) field.Fail("is empty");
  return field.Text();
}

void ReadNormalizer(const Field& field, BpeDescription* description) {
  if (field.missing()) return;
  const std::string& type = field["type"].Text();
  if (type == "NFC") {
    description->normalizer.AddNfc();
  } else if (type == "Prepend") {
    description->normalizer.AddPrepend(field["prepend"].Text());
  } else if (type == "Replace") {
    description->normalizer.AddReplace(NotEmpty(field["pattern"]["String"]),
                                       field["content"].Text());
  } else if (type == "Sequence") {
    const Field parts = field["normalizers"];
    for (size_t i = 0; i < parts.size(); ++i) ReadNormalizer(parts[i], description);
  } else {
    field["type"].Fail(fmt::format("'{}' is not supported", formats::Printable(type)));
  }
}

// Returns whether a ByteLevel stage was found, after which no other may follow.
bool ReadPreTokenizer(const Field& field, BpeDescription* description) {
  const std::string& type = field["type"].Text();
  if (type == "Sequence") {
    bool byte_level = false;
    const Field parts = field["pretokenizers"];
    for (size_t i = 0; i < parts.size(); ++i) {
      if (byte_level) parts[i].Fail("follows ByteLevel");
      byte_level = ReadPreTokenizer(parts[i], description);
    }
    return byte_level;
  }
  if (type == "ByteLevel") {
    if (field["add_prefix_space"].Flag(true)) {
      field["add_prefix_space"].Fail("true is not supported");
    }
    if (field["use_regex"].Flag(true)) {
      description->patterns.emplace_back(kGpt2Pattern, field.path());
    }
    return true;
  }
  if (type != "Split")
    field["type"].Fail(fmt::format("'{}' is not supported", formats::Printable(type)));
  if (field["behavior"].Text() != "Isolated") {
    field["behavior"].Fail(fmt::format("'{}' is not supported, only Isolated",
                                       formats::Printable(field["behavior"].Text())));
  }
  field["invert"].MustBeOff();
  const Field pattern = field["pattern"]["Regex"];
  description->patterns.emplace_back(pattern.Text(), pattern.path());
  return false;
}

// Reads the pre-tokenizer of character-level BPE: none, Metaspace, or Gemma's. Gemma's splits at
// spaces, which the normalizer has already replaced, so it changes nothing. ReadNormalizer must be
// called before.
void ReadMetaspace(const Field& field, BpeDescription* description) {
  if (field.missing()) return;
  const std::string& type = field["type"].Text();
  if (type == "Sequence" && field["pretokenizers"].size() == 1) {
    ReadMetaspace(field["pretokenizers"][size_t{0}], description);
    return;
  }
  if (type == "Split" && !field["pattern"]["String"].missing()) {
    const Field pattern = field["pattern"]["String"];
    field["invert"].MustBeOff();
    if (!description->normalizer.Removes(pattern.Text())) {
      pattern.Fail("is not supported with byte_fallback, unless the normalizer replaces it");
    }
    return;
  }
  if (type != "Metaspace") {
    field["type"].Fail(
        fmt::format("'{}' is not supported with byte_fallback", formats::Printable(type)));
  }
  Metaspace metaspace;
  metaspace.replacement = NotEmpty(field["replacement"]);
  metaspace.split = field["split"].Flag(true);
  using Prepend = Metaspace::Prepend;
  // Older files have add_prefix_space instead.
  const Field scheme = field["prepend_scheme"];
  if (scheme.missing()) {
    metaspace.prepend = field["add_prefix_space"].Flag(true) ? Prepend::kAlways : Prepend::kNever;
  } else if (scheme.Text() == "never") {
    metaspace.prepend = Prepend::kNever;
  } else if (scheme.Text() == "first") {
    metaspace.prepend = Prepend::kFirst;
  } else if (scheme.Text() != "always") {
    scheme.Fail(fmt::format("'{}' is not supported", formats::Printable(scheme.Text())));
  }
  description->metaspace = std::move(metaspace);
}

// Reads the decoder of character-level BPE, if any: any number of Replace, then ByteFallback, Fuse
// and Strip of one space. ReadAddedTokens must be called before.
void ReadDecoder(const Field& field, BpeDescription* description) {
  const auto refuse = [](const Field& part, const std::string& type) {
    part.Fail(
        fmt::format("'{}' is not supported there, with byte_fallback only Replace, "
                    "ByteFallback, Fuse and Strip, in this order",
                    formats::Printable(type)));
  };
  if (field.missing() || field["type"].Text() != "Sequence") {
    field.Fail("is no Sequence of Replace, ByteFallback, Fuse and Strip");
  }
  const Field parts = field["decoders"];
  constexpr std::string_view kOrder[] = {"Replace", "ByteFallback", "Fuse", "Strip"};
  size_t stage = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string& type = parts[i]["type"].Text();
    const size_t at = std::ranges::find(kOrder, type) - std::begin(kOrder);
    const bool next = at == 0 ? stage == 0 : at == stage + 1;
    if (at == std::size(kOrder) || !next) refuse(parts[i]["type"], type);
    stage = at;
    if (type == "Replace") {
      const std::string& pattern = NotEmpty(parts[i]["pattern"]["String"]);
      for (std::string& token : description->tokens) {
        token = ReplaceAll(token, pattern, parts[i]["content"].Text());
      }
    } else if (type == "Strip") {
      const int64_t start = parts[i]["start"].Integer();
      if (parts[i]["content"].Text() != " " || start > 1 || parts[i]["stop"].Integer() != 0) {
        parts[i].Fail("strips something else than one space before the text");
      }
      description->strips_space = start == 1;
    }
  }
  if (stage < 2) field["decoders"].Fail("has no ByteFallback and Fuse");
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto id = static_cast<size_t>(description->model.byte_ids[byte]);
    description->tokens[id] = static_cast<char>(byte);
  }
}

// Whether a space is put before a text, as in SentencePiece.
bool PutsSpaceBefore(const BpeDescription& description) {
  const bool prepends =
      description.metaspace && description.metaspace->prepend != Metaspace::Prepend::kNever;
  return prepends || description.normalizer.Prepends();
}

void ReadAddedTokens(const Field& field, BpeDescription* description) {
  if (field.missing()) return;
  const auto limit = static_cast<int64_t>(description->tokens.size() + 2 * field.size() + 1024);
  for (size_t i = 0; i < field.size(); ++i) {
    const Field token = field[i];
    AddedToken added = ReadAddedToken(token, /*normalizes=*/true);
    const int64_t id = token["id"].Integer();
    if (id < 0 || id >= limit) token["id"].Fail(fmt::format("{} is out of range", id));
    added.id = static_cast<int32_t>(id);
    if (static_cast<size_t>(id) >= description->tokens.size()) {
      description->tokens.resize(static_cast<size_t>(id) + 1);
    }
    description->added.push_back(std::move(added));
  }
}

// Adds the tokens that the folder's other files describe to `vocab`.
TokenizerFacts AddTokens(const TokenizerConfig& config, const Json& vocab,
                         BpeDescription* description) {
  VocabularyTokens tokens;
  tokens.find = [&](const std::string& content) -> std::optional<int64_t> {
    const auto found = vocab.find(content);
    if (found == vocab.end()) return std::nullopt;
    return found->get<int64_t>();
  };
  tokens.next = std::ssize(description->tokens);
  tokens.added = std::move(description->added);
  TokenizerFacts facts = config.AddTokens(tokens);
  description->added = std::move(tokens.added);
  description->tokens.resize(static_cast<size_t>(tokens.next));
  for (const AddedToken& added : description->added) {
    // The token's text as it is matched, with the normaliser's prefix.
    description->tokens[static_cast<size_t>(added.id)] =
        added.normalized ? description->normalizer.Apply(added.content) : added.content;
  }
  return facts;
}

// As in transformers, a tokenizer.json determines the sides of truncation and padding only if the
// config does not.
void ReadSides(const Field& file, const TokenizerConfig& config, TokenizerFacts& facts) {
  const auto read = [&](const char* section, const char* key, bool& left) {
    if (file[section].missing() || !config[key].missing()) return;
    const Field side = file[section]["direction"];
    if (side.missing()) return;
    left = side.Text() == "Left";
    if (!left && side.Text() != "Right") side.Fail("is neither Left nor Right");
  };
  read("truncation", "truncation_side", facts.cuts_left);
  read("padding", "padding_side", facts.pads_left);
}

std::unique_ptr<Tokenizer> MakeTokenizer(BpeDescription description, TokenizerFacts facts) {
  for (const AddedToken& added : description.added) facts.added.push_back(added.id);
  std::ranges::sort(facts.added);
  std::unique_ptr<Tokenizer> tokenizer = MakeBpeTokenizer(std::move(description));
  tokenizer->facts() = std::move(facts);
  return tokenizer;
}

std::unique_ptr<Tokenizer> MakeBpeOfJson(const Field& file, const std::string& name,
                                         const TokenizerConfig& config) {
  BpeDescription description = ReadModel(file["model"], name);
  ReadNormalizer(file["normalizer"], &description);
  const Field pre_tokenizer = file["pre_tokenizer"];
  const bool characters = !description.model.character_ids.empty();
  if (characters) {
    ReadMetaspace(pre_tokenizer, &description);
  } else if (pre_tokenizer.missing() || !ReadPreTokenizer(pre_tokenizer, &description)) {
    pre_tokenizer.Fail("has no ByteLevel stage");
  }
  config.RequireWords(nullptr);
  config.RequireSpaceBefore(PutsSpaceBefore(description));
  ReadAddedTokens(file["added_tokens"], &description);
  TokenizerFacts facts = AddTokens(config, file["model"]["vocab"].json(), &description);
  if (characters) ReadDecoder(file["decoder"], &description);
  facts.begins = BeginTokens(file["post_processor"], config, facts);
  for (const int32_t id : facts.begins) {
    if (id < 0 || id >= std::ssize(description.tokens)) {
      file["post_processor"].Fail(fmt::format("puts id {} before texts, which is no token", id));
    }
  }
  return MakeTokenizer(std::move(description), std::move(facts));
}

}  // namespace

std::unique_ptr<Tokenizer> ParseTokenizerJson(std::string_view json, const std::string& name,
                                              const TokenizerConfig& config) {
  const Json parsed = formats::ParseJson(json, name);
  const Field file(parsed, name);
  if (!parsed.is_object() || !parsed.contains("model")) {
    throw UserError(name + ": has no \"model\": not a tokenizer.json of Hugging Face's tokenizers");
  }
  std::unique_ptr<Tokenizer> tokenizer = IsWordPiece(file["model"])
                                             ? MakeWordPieceOfJson(file, name, config)
                                             : MakeBpeOfJson(file, name, config);
  ReadSides(file, config, tokenizer->facts());
  return tokenizer;
}

std::unique_ptr<Tokenizer> ParseGpt2Files(std::string_view encoder, const std::string& encoder_name,
                                          std::string_view merges, const std::string& merges_name,
                                          const TokenizerConfig& config) {
  constexpr std::string_view kClass = "GPT2Tokenizer";
  config.RequireClass({&kClass, 1}, "a vocab.json, only GPT2Tokenizer");
  config.RequireWords(nullptr);
  config.RequireSpaceBefore(false);
  const Json parsed = formats::ParseJson(encoder, encoder_name);
  BpeVocabulary vocabulary(encoder_name, ReadVocab(Field(parsed, encoder_name)));
  size_t line_number = 0;
  while (!merges.empty()) {
    const size_t newline = merges.find('\n');
    std::string_view line = merges.substr(0, newline);
    merges.remove_prefix(newline == std::string_view::npos ? merges.size() : newline + 1);
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && line.substr(0, 9) == "#version:")) continue;
    const std::string where = fmt::format("{}:{}", merges_name, line_number);
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      throw UserError(where + ": is no pair of tokens; get the file again");
    }
    vocabulary.AddMerge(std::string(line.substr(0, space)), std::string(line.substr(space + 1)),
                        where);
  }
  BpeDescription description = vocabulary.Take();
  description.patterns.emplace_back(kGpt2Pattern, encoder_name);
  const auto end_of_text = parsed.find("<|endoftext|>");
  if (end_of_text != parsed.end()) {
    AddedToken added;
    added.content = "<|endoftext|>";
    added.id = end_of_text->get<int32_t>();
    description.added.push_back(std::move(added));
  }
  TokenizerFacts facts = AddTokens(config, parsed, &description);
  facts.begins = BeginTokens(config, facts);
  return MakeTokenizer(std::move(description), std::move(facts));
}

}  // namespace plimsoll::data
