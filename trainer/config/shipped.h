// The configurations that come with the program, so that they are at hand wherever it runs: the
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

// nullptr when none has that path, which may be written as ./configs/models/gpt2-124m.yaml too.
const ShippedFile* FindShipped(const std::string& path);

// Of the files in a folder, without .yaml, sorted: "gpt2-124m" of configs/models.
std::vector<std::string> ShippedNames(const std::string& folder);

}  // namespace plimsoll::config
