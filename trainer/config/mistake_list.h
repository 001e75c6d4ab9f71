// Collects the mistakes of a file, to report all of them at once.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"

namespace plimsoll::config {

class MistakeList {
 public:
  // Runs a check and keeps the UserError that it throws.
  template <typename Check>
  void Try(const Check& check) {
    try {
      check();
    } catch (const UserError& error) {
      if (messages_.empty()) code_ = error.code();
      if (std::ranges::find(messages_, error.what()) == messages_.end()) {
        messages_.emplace_back(error.what());
      }
    }
  }
  // Throws one error with a line for each error kept; does nothing if there are none.
  void Throw() const {
    if (messages_.empty()) return;
    std::string text;
    for (size_t i = 0; i < messages_.size() && i < kMost; ++i) {
      text += (i == 0 ? "" : "\n") + messages_[i];
    }
    if (messages_.size() > kMost) {
      text += "\nand " + std::to_string(messages_.size() - kMost) + " more";
    }
    throw UserError(text, code_);
  }

 private:
  static constexpr size_t kMost = 20;  // lines in the message

  std::vector<std::string> messages_;
  ExitCode code_ = ExitCode::kUserMistake;
};

}  // namespace plimsoll::config
