// Reads the files of WordPiece tokenizers: vocab.txt with tokenizer_config.json, and
// tokenizer.json.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "data/tokenizers/json_field.h"
#include "data/tokenizers/tokenizer_config.h"
#include "data/tokenizers/unicode.h"
#include "data/tokenizers/wordpiece.h"
#include "formats/json.h"

namespace plimsoll::data {
namespace {

// Ids are indices of tables, and a single huge id must not create a huge table.
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

// Reads the tokens of a vocab.txt; a token's id is the number of its line. Lines end as in Python's
// text files: with \n, \r\n or \r.
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

// Tokenizers of transformers with the algorithm of BertTokenizer.
constexpr std::string_view kClasses[] = {
    "BertTokenizer",       "DistilBertTokenizer",  "ElectraTokenizer",  "ConvBertTokenizer",
    "MobileBertTokenizer", "SqueezeBertTokenizer", "LayoutLMTokenizer", "LxmertTokenizer"};

// The roles of kBertSpecialTokens, in the same order.
constexpr const char* kRoles[] = {"pad_token", "unk_token", "cls_token", "sep_token", "mask_token"};

void ReadWordOptions(const JsonField& lower_case, const JsonField& strip_accents,
                     const JsonField& chinese, BertWordOptions* words) {
  words->lower_case = lower_case.Flag(true);
  words->strip_accents = strip_accents.Flag(words->lower_case);
  words->split_chinese = chinese.Flag(true);
}

void ReadConfig(const TokenizerConfig& config, WordPieceDescription* description) {
  config.RequireClass(kClasses, "a vocab.txt, only BertTokenizer and those that work as it does");
  if (!config["do_basic_tokenize"].Flag(true)) {
    config["do_basic_tokenize"].Fail("false is not supported");
  }
  const JsonField never_split = config["never_split"];
  if (!never_split.missing() && never_split.size() > 0) never_split.Fail("is not supported");
  ReadWordOptions(config["do_lower_case"], config["strip_accents"],
                  config["tokenize_chinese_chars"], &description->words);
  description->unknown = ContentOf(config["unk_token"], description->unknown);
}

// Adds the tokens that the folder's other files describe.
TokenizerFacts AddTokens(const TokenizerConfig& config, WordPieceDescription* description) {
  std::map<std::string, int64_t> ids;
  for (size_t id = 0; id < description->tokens.size(); ++id) {
    ids[description->tokens[id]] = static_cast<int64_t>(id);
  }
  VocabularyTokens tokens;
  tokens.find = [&](const std::string& content) -> std::optional<int64_t> {
    const auto found = ids.find(content);
    if (found == ids.end()) return std::nullopt;
    return found->second;
  };
  tokens.next = std::ssize(description->tokens);
  tokens.normalizes = false;
  tokens.added = std::move(description->added);
  TokenizerFacts facts = config.AddTokens(tokens);
  description->added = std::move(tokens.added);
  description->tokens.resize(static_cast<size_t>(tokens.next));
  for (const AddedToken& added : description->added) {
    description->tokens[static_cast<size_t>(added.id)] = added.content;
  }
  return facts;
}

// Adds the default special tokens of transformers, if the vocabulary has them.
void AddDefaults(WordPieceDescription* description, TokenizerFacts* facts) {
  for (size_t i = 0; i < std::size(kRoles); ++i) {
    const std::string content(kBertSpecialTokens[i]);
    const auto last = std::find(description->tokens.rbegin(), description->tokens.rend(), content);
    if (facts->named.contains(kRoles[i]) || last == description->tokens.rend()) continue;
    AddedToken added;
    added.content = content;
    added.id = static_cast<int32_t>(description->tokens.rend() - last - 1);
    facts->named[kRoles[i]] = added.id;
    description->added.push_back(std::move(added));
  }
}

std::unique_ptr<Tokenizer> MakeTokenizer(WordPieceDescription description, TokenizerFacts facts,
                                         const std::string& name) {
  std::unique_ptr<Tokenizer> tokenizer = MakeWordPieceTokenizer(std::move(description), name);
  tokenizer->facts() = std::move(facts);
  return tokenizer;
}

}  // namespace

std::unique_ptr<Tokenizer> ParseWordPieceFiles(std::string_view vocab, const std::string& name,
                                               const TokenizerConfig& config) {
  WordPieceDescription description;
  description.tokens = ReadLines(vocab, name);
  ReadConfig(config, &description);
  config.RequireSpaceBefore(false);
  TokenizerFacts facts = AddTokens(config, &description);
  AddDefaults(&description, &facts);
  return MakeTokenizer(std::move(description), std::move(facts), name);
}

std::unique_ptr<Tokenizer> MakeWordPieceOfJson(const JsonField& file, const std::string& name,
                                               const TokenizerConfig& config) {
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
    AddedToken token = ReadAddedToken(added[i], /*normalizes=*/false);
    const int64_t id = added[i]["id"].Integer();
    SetToken(added[i], id, token.content, limit, &description);
    token.id = static_cast<int32_t>(id);
    description.added.push_back(std::move(token));
  }
  config.RequireWords(&description.words);
  config.RequireSpaceBefore(false);
  TokenizerFacts facts = AddTokens(config, &description);
  return MakeTokenizer(std::move(description), std::move(facts), name);
}

}  // namespace plimsoll::data
