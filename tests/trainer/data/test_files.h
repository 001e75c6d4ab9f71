// What tests of data files need: a folder that goes away, files of raw integers, error messages.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace plimsoll::data {

class TestFiles {
 public:
  TestFiles() {
    std::string name = ::testing::TempDir() + "plimsoll-data-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw InternalError("no temporary folder: " + name);
    folder_ = name;
  }
  ~TestFiles() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TestFiles(const TestFiles&) = delete;
  TestFiles& operator=(const TestFiles&) = delete;

  std::string folder() const { return folder_.string(); }
  std::string operator/(std::string_view name) const { return (folder_ / name).string(); }

  std::string Write(std::string_view name, std::string_view content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return *this / name;
  }
  // The numbers as little-endian T.
  template <typename T>
  std::string WriteAs(std::string_view name, const std::vector<T>& numbers) const {
    return Write(name, {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)});
  }
  std::string Read(std::string_view name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

 private:
  std::filesystem::path folder_;
};

// Expects `action` to throw a UserError of one line that holds all of `parts`.
template <typename Action>
void ExpectUserError(Action action, std::initializer_list<std::string_view> parts) {
  std::string message;
  try {
    action();
    ADD_FAILURE() << "expected a UserError";
    return;
  } catch (const UserError& error) {
    message = error.what();
  }
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  for (const std::string_view part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "no '" << part << "' in: " << message;
  }
}

}  // namespace plimsoll::data
