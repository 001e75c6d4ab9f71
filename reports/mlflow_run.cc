#include "reports/mlflow_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/fnv1a.h"
#include "base/input_file.h"
#include "base/output_file.h"
#include "base/replaced.h"
#include "reports/curve_name.h"

namespace plimsoll::reports {
namespace {

namespace fs = std::filesystem;

// MLflow refuses longer texts.
constexpr size_t kMostNameBytes = 250, kMostParamBytes = 6000, kMostTagBytes = 8000;

int64_t Milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void MakeFolders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw UserError(path.string() + ": cannot be made (" + error.message() + ")");
}

// Writes a file without waiting for the disk: a power cut may lose it.
void WriteText(const std::string& path, const std::string& text) {
  WriteWhole(path, text, OutputFile::Sync::kNo);
}

// The lines of a file without their ends. An incomplete last line is left out.
std::vector<std::string> WholeLines(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file = OpenFile(path);
  for (std::string line; std::getline(file, line);) {
    if (!file.eof()) lines.push_back(line);
  }
  return lines;
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

bool StartsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }  // in UTF-8

std::string AllowedName(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 &&
        (std::isalnum(byte) || std::string_view("_-. ").find(c) != std::string::npos)) {
      name += c;
    } else if (StartsCharacter(c)) {
      name += '_';
    }
  }
  name.resize(std::min(name.size(), kMostNameBytes));
  return name.empty() || name == "." || name == ".." ? "_" : name;
}

std::string Cut(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  while (!StartsCharacter(text[most])) --most;
  return text.substr(0, most);
}

// A YAML string; a JSON string is one.
std::string YamlText(const std::string& text) {
  using json = nlohmann::json;
  return json(text).dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

// Whether the line sets `name`, in one of the forms in which MLflow and we write it.
bool IsNamed(const std::string& line, const std::string& name) {
  return line == "name: " + name || line == "name: '" + Replaced(name, {{"'", "''"}}) + "'" ||
         line == "name: " + YamlText(name);
}

std::string FileUri(const std::string& path) {
  std::string uri = "file://";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || std::string_view("/._-~").find(c) != std::string::npos) {
      uri += c;
    } else {
      uri += fmt::format("%{:02X}", byte);
    }
  }
  return uri;
}

// Sets lines of "key: value": replaces existing lines and adds missing ones.
void SetMeta(const std::string& path,
             const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> lines = WholeLines(path);
  for (const auto& [key, value] : changes) {
    const std::string start = key + ": ", line = start + value;
    const auto found = std::ranges::find_if(
        lines, [&](const std::string& other) { return other.starts_with(start); });
    if (found == lines.end()) {
      lines.push_back(line);
    } else {
      *found = line;
    }
  }
  WriteText(path, Joined(lines));
}

// Finds or makes the experiment's folder. Processes that make the same experiment at a time make it
// identically.
std::string ExperimentFor(const std::string& folder, const std::string& name) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::vector<std::string> lines = WholeLines(entry.path() / "meta.yaml");
    if (std::ranges::any_of(lines, [&](const auto& line) { return IsNamed(line, name); })) {
      return entry.path().filename();
    }
  }
  uint64_t hash = kFnv1a;
  std::string id;
  do {
    hash = Fnv1a(name, hash);
    id = fmt::format("{:018}", hash % 1'000'000'000'000'000'000);
  } while (fs::exists(folder + "/" + id + "/meta.yaml", error) ||
           fs::exists(folder + "/.trash/" + id, error));
  const int64_t now = Milliseconds();
  MakeFolders(folder + "/" + id);
  WriteText(folder + "/" + id + "/meta.yaml",
            fmt::format("artifact_location: {}\ncreation_time: {}\nexperiment_id: '{}'\n"
                        "last_update_time: {}\nlifecycle_stage: active\nname: {}\n",
                        YamlText(FileUri(folder + "/" + id)), now, id, now, YamlText(name)));
  return id;
}

std::string RandomId() {
  std::array<uint8_t, 16> bytes = {};
  if (getentropy(bytes.data(), bytes.size()) != 0) throw InternalError("getentropy failed");
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

// The step in a line "milliseconds value step"; nullopt if the line has another form.
std::optional<int64_t> StepOf(const std::string& line) {
  const size_t space = line.rfind(' ');
  int64_t step = 0;
  const char* const end = line.data() + line.size();
  if (space == std::string::npos) return std::nullopt;
  const auto [rest, problem] = std::from_chars(line.data() + space + 1, end, step);
  if (problem != std::errc() || rest != end) return std::nullopt;
  return step;
}

}  // namespace

MlflowRun::MlflowRun(std::string folder, const MlflowFacts& facts, const std::string& place)
    : folder_(std::move(folder)), place_(place) {
  MakeFolders(folder_);
  std::error_code error;
  continues_ = !place.empty() && fs::exists(folder_ + "/" + place + "/meta.yaml", error);
  if (!continues_) place_ = ExperimentFor(folder_, facts.experiment) + "/" + RandomId();
  run_ = folder_ + "/" + place_;
  // A run in MLflow's store needs these folders.
  for (const char* part : {"/metrics", "/params", "/artifacts", "/tags"}) MakeFolders(run_ + part);
  WriteTexts("params", facts.params);
  WriteTexts("tags", facts.tags);
  if (!continues_) Create(facts);
  SetStatus(Status::kRunning, "");
}

void MlflowRun::Create(const MlflowFacts& facts) {
  const fs::path place(place_);
  WriteText(run_ + "/meta.yaml",
            fmt::format("artifact_uri: {}\nend_time: null\nentry_point_name: ''\n"
                        "experiment_id: '{}'\nlifecycle_stage: active\nrun_id: {}\nrun_name: {}\n"
                        "source_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: {}\n"
                        "status: 1\ntags: []\nuser_id: {}\n",
                        YamlText(FileUri(facts.files)), place.parent_path().string(),
                        YamlText(place.filename()), YamlText(facts.name), Milliseconds(),
                        YamlText(facts.user)));
}

void MlflowRun::WriteTexts(const std::string& kind,
                           const std::vector<std::pair<std::string, std::string>>& texts) const {
  for (const auto& [key, text] : texts) {
    WriteText(run_ + "/" + kind + "/" + AllowedName(key),
              Cut(text, kind == "params" ? kMostParamBytes : kMostTagBytes));
  }
}

void MlflowRun::Restart(int64_t step) {
  curves_.clear();
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(run_ + "/metrics", error)) {
    if (entry.is_regular_file(error)) files.push_back(entry.path());
  }
  for (const fs::path& file : files) {
    std::vector<std::string> lines = WholeLines(file);
    std::erase_if(lines, [&](const std::string& line) {
      const std::optional<int64_t> at = StepOf(line);
      return !at || *at >= step;
    });
    if (lines.empty()) {
      fs::remove(file, error);  // MLflow refuses empty files
    } else {
      WriteText(file, Joined(lines));
    }
  }
}

void MlflowRun::AddRow(const nlohmann::ordered_json& row) {
  const int64_t now = Milliseconds(), step = row.at("step");
  for (const auto& [key, value] : row.items()) {
    if (!value.is_number() || key == "step") continue;
    std::unique_ptr<LineFile>& curve = curves_[key];
    if (!curve) {
      const std::string name = CurveName(key);
      const size_t slash = name.find('/');
      const std::string group = run_ + "/metrics/" + name.substr(0, slash);
      MakeFolders(group);
      curve = std::make_unique<LineFile>(group + "/" + AllowedName(name.substr(slash + 1)),
                                         /*append=*/true);
    }
    curve->Append(fmt::format("{} {} {}", now, value.get<double>(), step));
  }
}

void MlflowRun::SetStatus(Status status, const std::string& reason) {
  const bool ended = status != Status::kRunning;
  SetMeta(run_ + "/meta.yaml", {{"status", fmt::format("{}", static_cast<int>(status))},
                                {"end_time", ended ? fmt::format("{}", Milliseconds()) : "null"}});
  WriteTexts("tags", {{"plimsoll.reason", reason}});
}

}  // namespace plimsoll::reports
