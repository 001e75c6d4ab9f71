// Readers of the files of WordPiece tokenizers: vocab.txt with tokenizer_config.json, and
// tokenizer.json.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/json.h"
#include "trainer/text/json_field.h"
#include "trainer/text/unicode.h"
#include "trainer/text/wordpiece.h"

namespace plimsoll::data {
namespace {

// Ids are indices of tables: a single huge id must not create a huge table.
constexpr int64_t kMostGaps = 1024;

void SetToken(const JsonField& field, int64_t id, const std::string& token, int64_t limit,
              WordPieceDescription* description) {
  if (id < 0 || id >= limit) {
    field.Fail(fmt::format("'{}' has id {}, out of range", formats::Printable(token), id));
  }
  if (id >= std::ssize(description->tokens)) {
    description->tokens.resize(static_cast<size_t>(id) + 1);
  }
  description->tokens[static_cast<size_t>(id)] = token;
}

// A token that texts may spell out, with its id.
void AddSpecial(const JsonField& token, int64_t id, int64_t limit,
                WordPieceDescription* description) {
  for (const char* key : {"single_word", "lstrip", "rstrip"}) token[key].MustBeOff();
  if (!token["special"].Flag(false)) token["normalized"].MustBeOff();
  if (token["content"].Text().empty()) token["content"].Fail("is empty");
  SetToken(token, id, token["content"].Text(), limit, description);
  description->special.push_back(static_cast<int32_t>(id));
}

// The tokens of a vocab.txt by their ids, the numbers of the lines. Lines end as in Python's text
// files: with \n, \r\n or \r.
std::vector<std::string> ReadLines(std::string_view text, const std::string& name) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\r\n"), text.size());
    const std::string_view line = text.substr(0, end);
    ForEachUtf8Run(line, [&](std::string_view, bool valid) {
      if (valid) return;
      throw UserError(fmt::format("{}:{}: is no UTF-8; a vocab.txt has one token a line", name,
                                  lines.size() + 1));
    });
    lines.emplace_back(line);
    text.remove_prefix(end + (text.substr(end).starts_with("\r\n") ? 2 : end < text.size()));
  }
  return lines;
}

// "[MASK]", or {"content": "[MASK]", …}.
std::string ContentOf(const JsonField& token, std::string_view otherwise) {
  if (token.missing()) return std::string(otherwise);
  return token.json().is_object() ? token["content"].Text() : token.Text();
}

// Tokenizers of transformers whose algorithm is BertTokenizer's.
void RequireKnownClass(const JsonField& field) {
  constexpr std::array kKnown =
      std::to_array<std::string_view>({"Bert", "DistilBert", "Electra", "ConvBert", "MobileBert",
                                       "SqueezeBert", "LayoutLM", "Lxmert"});
  if (field.missing()) return;
  std::string_view name = field.Text();
  if (name.ends_with("Fast")) name.remove_suffix(4);
  const bool known = std::ranges::any_of(
      kKnown, [&](std::string_view family) { return name == std::string(family) + "Tokenizer"; });
  if (!known) {
    field.Fail(
        fmt::format("'{}' is not supported with a vocab.txt, only BertTokenizer and those "
                    "that work as it does",
                    formats::Printable(field.Text())));
  }
}

void ReadWordOptions(const JsonField& lower_case, const JsonField& strip_accents,
                     const JsonField& chinese, BertWordOptions* words) {
  words->lower_case = lower_case.Flag(true);
  words->strip_accents = strip_accents.Flag(words->lower_case);
  words->split_chinese = chinese.Flag(true);
}

void ReadConfig(const JsonField& config, WordPieceDescription* description) {
  RequireKnownClass(config["tokenizer_class"]);
  if (!config["do_basic_tokenize"].Flag(true)) {
    config["do_basic_tokenize"].Fail("false is not supported");
  }
  const JsonField never_split = config["never_split"];
  if (!never_split.missing() && never_split.size() > 0) never_split.Fail("is not supported");
  ReadWordOptions(config["do_lower_case"], config["strip_accents"],
                  config["tokenize_chinese_chars"], &description->words);

  const JsonField added = config["added_tokens_decoder"];
  if (!added.missing()) {
    if (!added.json().is_object()) added.Fail("is no object of ids and tokens");
    const auto limit = std::ssize(description->tokens) + std::ssize(added.json()) + kMostGaps;
    for (const auto& item : added.json().items()) {
      const std::string& id = item.key();
      const bool number = !id.empty() && id.size() < 10 &&
                          std::ranges::all_of(id, [](char c) { return c >= '0' && c <= '9'; });
      if (!number) added.Fail(fmt::format("'{}' is no id", formats::Printable(id)));
      AddSpecial(added[id.c_str()], std::stoll(id), limit, description);
    }
  }
  description->unknown = ContentOf(config["unk_token"], description->unknown);
}

// The tokens that transformers names, where the vocabulary has them.
void AddNamedTokens(const JsonField& config, WordPieceDescription* description) {
  std::map<std::string, int32_t> ids;
  for (size_t id = 0; id < description->tokens.size(); ++id) {
    ids[description->tokens[id]] = static_cast<int32_t>(id);
  }
  const auto add = [&](const std::string& token) {
    const auto found = ids.find(token);
    if (found != ids.end() && !token.empty()) description->special.push_back(found->second);
  };
  constexpr const char* kKeys[] = {"pad_token", "unk_token", "cls_token", "sep_token",
                                   "mask_token"};
  for (size_t i = 0; i < std::size(kKeys); ++i) {
    add(ContentOf(config[kKeys[i]], kBertSpecialTokens[i]));
  }
  const JsonField more = config["additional_special_tokens"];
  for (size_t i = 0; !more.missing() && i < more.size(); ++i) add(ContentOf(more[i], ""));
}

}  // namespace

std::unique_ptr<Tokenizer> ParseWordPieceFiles(std::string_view vocab, const std::string& name,
                                               std::string_view config,
                                               const std::string& config_name) {
  WordPieceDescription description;
  description.tokens = ReadLines(vocab, name);
  const nlohmann::json parsed =
      config.empty() ? nlohmann::json::object() : formats::ParseJson(config, config_name);
  const JsonField fields(parsed, config_name);
  ReadConfig(fields, &description);
  AddNamedTokens(fields, &description);
  return MakeWordPieceTokenizer(std::move(description), name);
}

std::unique_ptr<Tokenizer> LoadWordPieceTokenizer(const std::string& vocab_path) {
  const MappedFile vocab(vocab_path);
  const std::filesystem::path config_path =
      std::filesystem::path(vocab_path).parent_path() / "tokenizer_config.json";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(config_path, ignored)) {
    return ParseWordPieceFiles(vocab.text(), vocab_path, "", config_path);
  }
  const MappedFile config(config_path);
  return ParseWordPieceFiles(vocab.text(), vocab_path, config.text(), config_path);
}

WordPieceDescription ReadWordPieceJson(const JsonField& file) {
  WordPieceDescription description;
  const JsonField model = file["model"], vocab = model["vocab"];
  if (!vocab.json().is_object()) vocab.Fail("is no object of tokens and ids");
  const auto limit = 2 * std::ssize(vocab.json()) + kMostGaps;
  for (const auto& item : vocab.json().items()) {
    const std::string path = fmt::format("{}.{}", vocab.path(), formats::Printable(item.key()));
    const JsonField id(item.value(), path);
    SetToken(id, id.Integer(), item.key(), limit, &description);
  }
  description.unknown = ContentOf(model["unk_token"], description.unknown);
  const JsonField prefix = model["continuing_subword_prefix"];
  if (!prefix.missing() && prefix.Text() != kContinuation) prefix.Fail("is not ##");
  const JsonField longest = model["max_input_chars_per_word"];
  if (!longest.missing()) description.longest_word = longest.Integer();

  const JsonField normalizer = file["normalizer"], pre_tokenizer = file["pre_tokenizer"];
  if (normalizer.missing() || normalizer["type"].Text() != "BertNormalizer") {
    normalizer.Fail("is no BertNormalizer, which a WordPiece model needs here");
  }
  if (!normalizer["clean_text"].Flag(true)) normalizer["clean_text"].Fail("false is not supported");
  ReadWordOptions(normalizer["lowercase"], normalizer["strip_accents"],
                  normalizer["handle_chinese_chars"], &description.words);
  if (pre_tokenizer.missing() || pre_tokenizer["type"].Text() != "BertPreTokenizer") {
    pre_tokenizer.Fail("is no BertPreTokenizer, which a WordPiece model needs here");
  }
  const JsonField added = file["added_tokens"];
  for (size_t i = 0; !added.missing() && i < added.size(); ++i) {
    AddSpecial(added[i], added[i]["id"].Integer(), limit, &description);
  }
  return description;
}

}  // namespace plimsoll::data
