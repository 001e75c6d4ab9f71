#include "studies/command_output.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/input_file.h"
#include "base/output_file.h"

namespace plimsoll::studies {
namespace {

using nlohmann::ordered_json;

// Figures that must be above 0 if they are present; all others need only be finite.
constexpr std::array kPositive = {"step_ms_low",     "step_ms_high",    "tokens_per_s",
                                  "tokens_per_step", "process_bytes",   "peak_bytes",
                                  "arena_bytes",     "reserved_bytes",  "ranks",
                                  "joules_per_step", "joules_per_token"};
constexpr std::array kFinite = {"loss", "eval_loss", "best_eval_loss", "mfu", "hfu"};

[[noreturn]] void Refuse(const std::string& member, const ordered_json& value, const char* want) {
  std::string text = value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 40) + "…";
  throw UserError(fmt::format("the command printed {}: {}; it must be {}", member, text, want));
}

void RequirePositive(const std::string& member, const ordered_json& value) {
  if (value.is_number() && value.get<double>() > 0 && std::isfinite(value.get<double>())) return;
  Refuse(member, value, "a finite number above 0");
}

// Reads lines of at most `limit` bytes; longer lines are read as empty.
class Lines {
 public:
  Lines(const std::string& path, size_t limit) : file_(OpenFile(path)), limit_(limit) {}

  bool Next(std::string& line) {
    line.clear();
    bool too_long = false;
    std::array<char, 1 << 16> block;
    while (file_) {
      // When a part of a line fills the block, the stream is failed but not at the end of the file.
      file_.getline(block.data(), block.size());
      if (!too_long) line.append(block.data());
      too_long |= line.size() > limit_;
      if (too_long) line.clear();
      if (!file_.fail()) return true;
      if (file_.eof() || file_.gcount() == 0) return false;
      file_.clear();
    }
    return false;
  }

 private:
  std::ifstream file_;
  const size_t limit_;
};

}  // namespace

ordered_json LastObject(const std::string& path) {
  Lines lines(path, kKeptOutput);
  std::string line, last;
  // Most lines that begin like an object are objects: only the last one is parsed twice.
  while (lines.Next(line)) {
    if (!line.starts_with('{') || line.find("\"step_ms\"") == line.npos) continue;
    const ordered_json json = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("step_ms")) last = line;
  }
  return last.empty() ? ordered_json(nullptr) : ordered_json::parse(last);
}

void CheckOutput(const ordered_json& object) {
  if (!object.is_object() || !object.contains("step_ms")) {
    throw UserError("the command printed no line of JSON with step_ms, the milliseconds of a step");
  }
  const ordered_json& steps = object.at("step_ms");
  if (!steps.is_array()) {
    RequirePositive("step_ms", steps);
  } else if (steps.empty()) {
    Refuse("step_ms", steps, "a number, or a list of some");
  } else {
    for (size_t i = 0; i < steps.size(); ++i) {
      RequirePositive(fmt::format("step_ms[{}]", i), steps.at(i));
    }
  }
  for (const char* member : kPositive) {
    if (object.contains(member) && !object.at(member).is_null()) {
      RequirePositive(member, object.at(member));
    }
  }
  for (const char* member : kFinite) {
    const ordered_json value = object.value(member, ordered_json(nullptr));
    if (value.is_null() || (value.is_number() && std::isfinite(value.get<double>()))) continue;
    Refuse(member, value, "a finite number");
  }
}

Run RunOf(const ordered_json& object, const std::string& seed) {
  Run run;
  run.seed = seed;
  run.summary = object;
  const ordered_json& steps = object.at("step_ms");
  if (steps.is_array()) {
    run.step_ms = steps.get<std::vector<double>>();
    return run;
  }
  run.step_ms = {steps.get<double>()};
  // One figure with its spread stands for five steps, whose quartiles are these three figures.
  const std::optional<double> low = run.Figure("step_ms_low"), high = run.Figure("step_ms_high");
  if (low && high) run.step_ms.insert(run.step_ms.end(), {*low, *low, *high, *high});
  return run;
}

std::string ReadTail(const std::string& path, size_t bytes) {
  std::ifstream file = OpenFile(path);
  if (!file) return "";
  file.seekg(0, std::ios::end);
  const auto size = static_cast<size_t>(file.tellg());
  const size_t kept = std::min(size, bytes);
  file.seekg(static_cast<std::streamoff>(size - kept));
  std::string text(kept, '\0');
  file.read(text.data(), static_cast<std::streamsize>(kept));
  text.resize(static_cast<size_t>(file.gcount()));
  if (kept < size) text.erase(0, text.find('\n') == text.npos ? 0 : text.find('\n') + 1);
  return text;
}

std::string ReadHead(const std::string& path, size_t bytes) {
  std::ifstream file = OpenFile(path);
  std::string text(bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(bytes));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

void KeepTail(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error || size <= kKeptOutput) return;
  const std::string tail = ReadTail(path);
  OutputFile file(path);
  file.Write(fmt::format("… {} bytes left out\n", size - tail.size()) + tail);
  file.Commit();
}

}  // namespace plimsoll::studies
