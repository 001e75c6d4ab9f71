// A temporary folder that is removed with the test, and reading and writing of whole files. A file
// that cannot be written or opened fails the test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace plimsoll {

inline void WriteFile(const std::string& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary);
  file << content << std::flush;
  EXPECT_TRUE(file.good()) << path << " cannot be written";
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path << " cannot be opened";
  return {std::istreambuf_iterator<char>(file), {}};
}

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

  // Returns the file's path.
  std::string Write(std::string_view name, std::string_view content) const {
    WriteFile(*this / name, content);
    return *this / name;
  }
  // Writes the numbers as little-endian T.
  template <typename T>
  std::string WriteAs(std::string_view name, const std::vector<T>& numbers) const {
    return Write(name, {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)});
  }
  std::string Read(std::string_view name) const { return ReadFile(*this / name); }

  // The sorted names in the folder, or in its subfolder `below`.
  std::vector<std::string> Names(std::string_view below = "") const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(*this / below)) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }

 private:
  std::string path_;
};

}  // namespace plimsoll
