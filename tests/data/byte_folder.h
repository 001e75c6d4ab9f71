// A tokenizer's folder with a token for each byte, whose files ask for <b> (256) before texts and
// for <e> (257) after them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/support/temp_folder.h"

namespace plimsoll::data {

constexpr int32_t kBegin = 256, kEnd = 257;

inline void WriteByteFolder(const TempFolder& folder) {
  using nlohmann::json;
  json file = json::parse(ReadFile("tests/data/tokenizers/gpt2_style.json"));
  json vocab = json::object();
  for (const auto& [token, id] : file["model"]["vocab"].items()) {
    if (id < 256) vocab[token] = id;
  }
  file["model"]["vocab"] = vocab;
  file["model"]["merges"] = json::array();
  file["added_tokens"] = json::array();
  for (const auto& [content, id] : {std::pair("<b>", kBegin), std::pair("<e>", kEnd)}) {
    file["added_tokens"].push_back({{"content", content}, {"id", id}, {"special", true}});
  }
  const json begin = {{"SpecialToken", {{"id", "<b>"}, {"type_id", 0}}}};
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json token = {{"id", "<b>"}, {"ids", json::array({kBegin})}, {"tokens", {"<b>"}}};
  file["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", json::array({begin, text})},
                            {"special_tokens", {{"<b>", token}}}};
  folder.Write("tokenizer.json", file.dump());
  folder.Write("tokenizer_config.json",
               R"({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<b>",
                   "eos_token": "<e>"})");
}

}  // namespace plimsoll::data
