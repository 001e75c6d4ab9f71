// The files of configs/, which must be in the data of a test that uses this.
#pragma once

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace plimsoll::config {

inline std::vector<std::string> ConfigFiles() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("configs")) {
    const bool study = entry.path().parent_path() == "configs/studies";
    if (entry.path().extension() == ".yaml" && !study) files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

// The files that need no model on disk.
inline std::vector<std::string> PlannableConfigFiles() {
  std::vector<std::string> files = ConfigFiles();
  std::erase_if(files, [](const std::string& name) {
    std::ifstream file(name);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return text.find("init_from:") != text.npos;
  });
  return files;
}

// The file's name as a part of a test's name. Several folders may hold files of the same name.
inline std::string TestName(const std::string& file) {
  std::string name = std::filesystem::path(file).replace_extension().string();
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

}  // namespace plimsoll::config
