// The weights of a Hugging Face checkpoint, in one safetensors file or in several that
// model.safetensors.index.json lists. Several files are checked and reported like a single file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors.h"

namespace plimsoll::formats {

// Whether the folder has model.safetensors or model.safetensors.index.json.
bool HasModelSafetensors(const std::string& folder);

class ModelSafetensors {
 public:
  // `path` is a .safetensors file, an index file (.json), or a folder with model.safetensors or
  // else model.safetensors.index.json.
  explicit ModelSafetensors(const std::string& path);

  const std::string& path() const { return path_; }      // path of the file or the index
  std::vector<std::string> Names() const;                // sorted
  const TensorEntry* Find(std::string_view name) const;  // null when absent

  // These members work as in SafetensorsReader. All throw a UserError when the tensor is absent.
  const TensorEntry& Require(std::string_view name) const;
  std::span<const std::byte> Raw(std::string_view name) const;
  void ReadFloat32(std::string_view name, float* out, int64_t count) const;

  const std::vector<SafetensorsReader>& files() const { return files_; }
  // The file that has the tensor.
  const SafetensorsReader& Shard(std::string_view name) const;

 private:
  void OpenShards();

  std::string path_;
  std::vector<SafetensorsReader> files_;
  std::map<std::string, size_t, std::less<>> file_of_;  // tensor -> index into files_
};

}  // namespace plimsoll::formats
