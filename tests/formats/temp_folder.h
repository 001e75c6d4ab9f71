// A folder of a test's own that goes away with the test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "base/error.h"

namespace plimsoll::formats {

class TempFolder {
 public:
  TempFolder() {
    std::string name = ::testing::TempDir() + "plimsoll-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw InternalError("no temporary folder: " + name);
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path() const { return path_.string(); }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

  std::string Write(std::string_view name, std::string_view content) const {
    std::ofstream file(path_ / name, std::ios::binary);
    file << content;
    return (path_ / name).string();
  }
  std::string Read(std::string_view name) const {
    std::ifstream file(path_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::filesystem::path path_;
};

// The message of the UserError that `action` throws; a failure of the test if it throws none or if
// the message is not one line.
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

}  // namespace plimsoll::formats
