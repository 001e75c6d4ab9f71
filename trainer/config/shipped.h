// The configurations shipped inside the program, so that they are available wherever it runs: the
// files of configs/, by their paths in the repository.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::config {

struct ShippedFile {
  std::string_view path;  // "configs/models/gpt2-124m.yaml"
  std::string_view text;
};

std::span<const ShippedFile> ShippedFiles();

// Finds a shipped file by its path; nullptr if no file has this path. Also accepts
// ./configs/models/gpt2-124m.yaml.
const ShippedFile* FindShipped(const std::string& path);

// The names of the files in a folder, without .yaml, sorted: "gpt2-124m" in configs/models.
std::vector<std::string> ShippedNames(const std::string& folder);

}  // namespace plimsoll::config
