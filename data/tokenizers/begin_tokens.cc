#include "data/tokenizers/begin_tokens.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "formats/json.h"

namespace plimsoll::data {
namespace {

std::vector<int32_t> Bos(const TokenizerFacts& facts) {
  const auto bos = facts.named.find("bos_token");
  return bos == facts.named.end() ? std::vector<int32_t>() : std::vector<int32_t>{bos->second};
}

int32_t IdOf(const JsonField& id) { return static_cast<int32_t>(id.Integer()); }

// The special tokens before the text in the template of single texts.
void AppendTemplate(const JsonField& processor, std::vector<int32_t>& begins) {
  const JsonField single = processor["single"];
  for (size_t i = 0; i < single.size(); ++i) {
    const JsonField special = single[i]["SpecialToken"];
    if (special.missing()) return;
    const JsonField ids = processor["special_tokens"][special["id"].Text().c_str()]["ids"];
    for (size_t k = 0; k < ids.size(); ++k) begins.push_back(IdOf(ids[k]));
  }
}

void AppendProcessor(const JsonField& processor, std::vector<int32_t>& begins) {
  if (processor.missing()) return;
  const std::string& type = processor["type"].Text();
  if (type == "Sequence") {
    const JsonField parts = processor["processors"];
    for (size_t i = 0; i < parts.size(); ++i) AppendProcessor(parts[i], begins);
  } else if (type == "TemplateProcessing") {
    AppendTemplate(processor, begins);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    const JsonField token = processor["cls"];  // its text and its id
    if (token.size() != 2) token.Fail("is no pair of a token and its id");
    begins.push_back(IdOf(token[1]));
  } else if (type != "ByteLevel") {  // which changes offsets alone
    processor["type"].Fail(fmt::format("'{}' is not supported", formats::Printable(type)));
  }
}

}  // namespace

std::vector<int32_t> BeginTokens(const JsonField& post_processor, const TokenizerConfig& config,
                                 const TokenizerFacts& facts) {
  const std::string name = config.ClassName();
  if (name == "GPTNeoXTokenizer") return {};
  if (name == "CodeLlamaTokenizer") return Bos(facts);
  std::vector<int32_t> begins;
  AppendProcessor(post_processor, begins);
  return begins;
}

std::vector<int32_t> BeginTokens(const TokenizerConfig& config, const TokenizerFacts& facts) {
  return config["add_bos_token"].Flag(false) ? Bos(facts) : std::vector<int32_t>();
}

std::string Apply(const TextTokens& tokens, Tokenizer& tokenizer) {
  if (!tokens.end.empty()) tokenizer.ChooseEnd(tokens.end, "data.end");
  std::vector<int32_t>& begins = tokenizer.facts().begins;
  if (begins.empty()) return "";
  std::string text;
  for (const int32_t id : begins) tokenizer.Decode(id, &text);
  if (tokens.begins) return fmt::format("texts begin with {}", formats::Printable(text));
  begins.clear();
  return fmt::format("texts begin without {}, which the tokenizer{} asks for (data.begin: none)",
                     formats::Printable(text),
                     tokenizer.facts().folder.empty() ? "" : " in " + tokenizer.facts().folder);
}

}  // namespace plimsoll::data
