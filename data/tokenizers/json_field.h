// A field of a tokenizer's file together with its path, so that every error message can name its
// place.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.h"
#include "formats/json.h"

namespace plimsoll::data {

class JsonField {
 public:
  // Advice for a refused tokenizer.json: the supported kinds.
  static constexpr const char* kSupported =
      "supported are files of byte-level BPE (such as GPT-2's, Llama 3's, Qwen2's), of BPE with "
      "byte fallback (Llama 2's) and of WordPiece (BERT's)";

  // `path` is the file's name, or "name: outer.inner" for a field in it. `way_out` is appended to
  // every message.
  JsonField(const nlohmann::json& json, std::string path, const char* way_out = kSupported,
            const char* separator = ": ")
      : json_(&json), path_(std::move(path)), way_out_(way_out), separator_(separator) {}

  JsonField operator[](const char* key) const {
    static const nlohmann::json null;
    if (!json_->is_object()) Fail("is no object");
    const auto found = json_->find(key);
    return JsonField(found == json_->end() ? null : *found,
                     fmt::format("{}{}{}", path_, separator_, key), way_out_, ".");
  }
  JsonField operator[](size_t i) const {
    return JsonField((*json_)[i], fmt::format("{}[{}]", path_, i), way_out_, ".");
  }

  bool missing() const { return json_->is_null(); }
  const nlohmann::json& json() const { return *json_; }
  const std::string& path() const { return path_; }
  size_t size() const {
    if (!json_->is_array()) Fail("is no list");
    return json_->size();
  }
  const std::string& Text() const {
    if (!json_->is_string()) Fail("is no string");
    return json_->get_ref<const std::string&>();
  }
  int64_t Integer() const {
    if (!json_->is_number_integer()) Fail("is no integer");
    return json_->get<int64_t>();
  }
  bool Flag(bool otherwise) const {
    if (missing()) return otherwise;
    if (!json_->is_boolean()) Fail("is neither true nor false");
    return json_->get<bool>();
  }
  // Refuses any value that enables a feature that would change the ids.
  void MustBeOff() const {
    const bool off = missing() || (json_->is_boolean() && !json_->get<bool>()) ||
                     (json_->is_string() && json_->get_ref<const std::string&>().empty()) ||
                     (json_->is_number() && json_->get<double>() == 0);
    if (!off) Fail(fmt::format("{} is not supported", Brief()));
  }
  [[noreturn]] void Fail(const std::string& reason) const {
    throw UserError(fmt::format("{}: {}; {}", path_, reason, way_out_));
  }
  std::string Brief() const {
    if (!json_->is_primitive()) return json_->type_name();
    return formats::Printable(json_->dump());
  }

 private:
  const nlohmann::json* json_;
  std::string path_;
  const char* way_out_;
  const char* separator_;
};

}  // namespace plimsoll::data
