// A folder of a test's own, and the message of the error it expects.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"

namespace plimsoll::models {

class TempFolder {
 public:
  TempFolder() : path_(::testing::TempDir() + "plimsoll-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) throw InternalError("no temporary folder: " + path_);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

// A failure of the test when `action` throws no UserError, or one of several lines.
template <typename Action>
std::string UserErrorOf(Action action) {
  try {
    action();
  } catch (const UserError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), message.npos) << message;
    return message;
  }
  ADD_FAILURE() << "expected a UserError";
  return "";
}

}  // namespace plimsoll::models
