// What tests of chats share.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/tokenizers/tokenizer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::data {

using Json = nlohmann::json;

inline const std::string kChats = "tests/data/chats/";

// A folder with a tokenizer and what its configuration says.
class TokenizerFolder {
 public:
  explicit TokenizerFolder(const std::string& style = "qwen2_style",
                           const Json& config = {{"eos_token", "<|im_end|>"}}) {
    folder_.Write("tokenizer.json", ReadFile("tests/data/tokenizers/" + style + ".json"));
    folder_.Write("tokenizer_config.json", config.dump());
  }
  const std::string& path() const { return folder_.path(); }
  std::unique_ptr<Tokenizer> Load() const { return LoadTokenizer(path()); }
  const TempFolder& files() const { return folder_; }

 private:
  TempFolder folder_;
};

inline Json Turns(std::initializer_list<std::pair<const char*, const char*>> turns) {
  Json messages = Json::array();
  for (const auto& [role, content] : turns) {
    messages.push_back({{"role", role}, {"content", content}});
  }
  return messages;
}

// Expects a UserError that holds all of `parts`.
template <typename Action>
void ExpectRefused(Action&& action, const std::vector<std::string>& parts) {
  std::string said;
  ExpectUserError(
      [&] {
        try {
          action();
        } catch (const UserError& error) {
          said = error.what();
          throw;
        }
      },
      {});
  for (const std::string& part : parts)
    EXPECT_NE(said.find(part), said.npos) << part << "\n" << said;
}

}  // namespace plimsoll::data
