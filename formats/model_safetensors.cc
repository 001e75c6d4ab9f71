#include "formats/model_safetensors.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "formats/foreign_files.h"
#include "formats/json.h"

namespace plimsoll::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".safetensors";

bool EndsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

// An index may only name files in its own folder.
bool IsPlainFileName(std::string_view name) {
  return name.size() > kSuffix.size() && EndsWith(name, kSuffix) &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

// The path of the folder's model file or index; empty if the folder has neither.
std::string FindIn(const std::string& folder) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    const fs::path file = fs::path(folder) / name;
    if (std::error_code ignored; fs::exists(file, ignored)) return file.string();
  }
  return "";
}

std::string Locate(const std::string& path) {
  if (std::error_code ignored; !fs::is_directory(path, ignored)) return path;
  if (std::string found = FindIn(path); !found.empty()) return found;
  RefuseForeignModel(path);
  throw UserError(fmt::format(
      "{}: no model.safetensors or model.safetensors.index.json in this folder; name a folder that "
      "holds a Hugging Face checkpoint in safetensors form",
      path));
}

}  // namespace

bool HasModelSafetensors(const std::string& folder) { return !FindIn(folder).empty(); }

ModelSafetensors::ModelSafetensors(const std::string& path) : path_(Locate(path)) {
  if (EndsWith(path_, ".json")) {
    OpenShards();
    return;
  }
  RefuseForeignFile(path_);
  files_.emplace_back(path_);
  for (const TensorEntry& tensor : files_[0].tensors()) file_of_[tensor.name] = 0;
}

void ModelSafetensors::OpenShards() {
  const JsonObject index = JsonObject::FromFile(path_).RequireObject("weight_map");
  const fs::path folder = fs::path(path_).parent_path();
  std::map<std::string, size_t> opened;
  for (const std::string& tensor : index.Keys()) {
    const std::string file = index.RequireString(tensor);
    if (!IsPlainFileName(file)) {
      index.Fail(tensor, fmt::format("\"{}\" is not the name of a .safetensors file in this folder",
                                     Printable(file)));
    }
    const auto [entry, is_new] = opened.emplace(file, files_.size());
    if (is_new) {
      if (std::error_code ignored; !fs::exists(folder / file, ignored)) {
        index.Fail(tensor, fmt::format("{} is missing; fetch all files of the checkpoint",
                                       Printable(file)));
      }
      RefuseForeignFile((folder / file).string());
      files_.emplace_back((folder / file).string());
    }
    const size_t number = entry->second;
    if (files_[number].Find(tensor) == nullptr) {
      index.Fail(tensor, fmt::format("{} has no such tensor; fetch the index and its files again",
                                     Printable(file)));
    }
    file_of_[tensor] = number;
  }
}

std::vector<std::string> ModelSafetensors::Names() const {
  std::vector<std::string> names;
  for (const auto& entry : file_of_) names.push_back(entry.first);
  return names;
}

const TensorEntry* ModelSafetensors::Find(std::string_view name) const {
  const auto found = file_of_.find(name);
  return found == file_of_.end() ? nullptr : files_[found->second].Find(name);
}

const SafetensorsReader& ModelSafetensors::Shard(std::string_view name) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end()) {
    throw UserError(
        fmt::format("{}: no tensor \"{}\" among its {}; is it a checkpoint of another model?",
                    path_, Printable(name), file_of_.size()));
  }
  return files_[found->second];
}

const TensorEntry& ModelSafetensors::Require(std::string_view name) const {
  return Shard(name).Require(name);
}

std::span<const std::byte> ModelSafetensors::Raw(std::string_view name) const {
  return Shard(name).Raw(name);
}

void ModelSafetensors::ReadFloat32(std::string_view name, float* out, int64_t count) const {
  Shard(name).ReadFloat32(name, out, count);
}

}  // namespace plimsoll::formats
