#include "trainer/save_and_resume/text_ends.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "base/output_file.h"
#include "data/tokenizers/generation_config.h"
#include "formats/json.h"
#include "models/huggingface.h"
#include "trainer/config/value.h"
#include "trainer/save_and_resume/picture_preparation.h"

namespace plimsoll::trainer {
namespace {

namespace fs = std::filesystem;

void AddMissing(const std::vector<int64_t>& more, std::vector<int64_t>& ends) {
  for (const int64_t id : more) {
    if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  }
}

std::vector<int64_t> EndsOfConfig(const models::Model& model) {
  return data::EndTokensOf(formats::JsonObject::FromText(models::ConfigJson(model), "config.json"));
}

std::vector<int64_t> EndsOfFile(const std::string& folder) {
  if (folder.empty()) return {};
  return data::EndTokensOf(data::ReadGenerationConfig(folder));
}

}  // namespace

std::vector<int32_t> TextEnds(const models::Model& model, const std::string& folder) {
  std::vector<int64_t> ends = EndsOfConfig(model);
  AddMissing(EndsOfFile(folder), ends);
  return {ends.begin(), ends.end()};
}

std::string EndOfRun(const RunRecord& record, const std::string& snapshot) {
  const auto end = record.config.find("data.end");
  if (end == record.config.end() || end->second == config::ScalarText("")) return "";
  return RecordedData(record, snapshot).data.end;
}

std::string GenerationConfigText(const models::Model& model, const std::string& folder,
                                 std::optional<int32_t> end) {
  if (folder.empty()) return "";
  const fs::path path = fs::path(folder) / data::kGenerationFile;
  std::error_code ignored;
  const bool has_file = fs::is_regular_file(path, ignored);
  const std::vector<int64_t> of_config = EndsOfConfig(model);
  // Without the file, the model's config.json says all ends unless the run has chosen another.
  if (!has_file && (of_config.empty() || !end || std::ranges::count(of_config, *end) > 0)) {
    return "";
  }
  std::string text(has_file ? MappedFile(path).text() : "{}");
  const std::vector<int64_t> before = EndsOfFile(folder);
  std::vector<int64_t> ends = before;
  AddMissing(of_config, ends);
  if (end) AddMissing({*end}, ends);
  if (ends == before) return text;
  auto file = nlohmann::ordered_json::parse(text);
  if (ends.size() == 1) {
    file["eos_token_id"] = ends.front();
  } else {
    file["eos_token_id"] = ends;
  }
  return file.dump(2) + "\n";
}

void WriteGenerationConfig(const std::string& text, const std::string& folder) {
  const fs::path path = fs::path(folder) / data::kGenerationFile;
  if (text.empty()) {
    std::error_code ignored;
    fs::remove(path, ignored);
    return;
  }
  WriteWhole(path.string(), text);
}

}  // namespace plimsoll::trainer
