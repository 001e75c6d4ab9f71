#include "trainer/config/shipped.h"

#include <algorithm>
#include <filesystem>

namespace plimsoll::config {

const ShippedFile* FindShipped(const std::string& path) {
  const std::string normal = std::filesystem::path(path).lexically_normal().string();
  const std::span<const ShippedFile> files = ShippedFiles();
  const auto found = std::ranges::find(files, normal, &ShippedFile::path);
  return found == files.end() ? nullptr : &*found;
}

std::vector<std::string> ShippedNames(const std::string& folder) {
  std::vector<std::string> names;
  for (const ShippedFile& file : ShippedFiles()) {
    const std::filesystem::path path(file.path);
    if (path.parent_path() == folder) names.push_back(path.stem().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace plimsoll::config
