// The files of configs/, which a test that uses this has among its data.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace plimsoll::config {

inline std::vector<std::string> ConfigFiles() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("configs")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace plimsoll::config
