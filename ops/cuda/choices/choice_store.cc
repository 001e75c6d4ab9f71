#include "ops/cuda/choices/choice_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fnv1a.h"
#include "base/message.h"
#include "base/output_file.h"
#include "ops/cuda/choices/choice_options.h"

namespace plimsoll::ops {
namespace {

constexpr std::string_view kChecksum = "checksum ";

// Reads all of `text`, or fails.
bool ParseHex(std::string_view text, uint64_t& value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

bool ParseMicroseconds(std::string_view text, double& value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() &&
         std::isfinite(value) && value > 0;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Locks a folder, which is created if needed, for one process at a time. If it can't be locked,
// each process continues without the lock.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    handle_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle_ >= 0) flock(handle_, LOCK_EX);
  }
  ~FolderLock() {
    if (handle_ >= 0) close(handle_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int handle_ = -1;
};

std::string PathOf(const std::string& kind, const std::string& device) {
  const std::string folder = ChoiceFolder();
  if (folder.empty()) return "";
  std::string name;
  for (char c : device) {
    if (c != ',') name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  }
  return fmt::format("{}/{}-{}.txt", folder, kind, name);
}

void Warn(const std::string& message) {
  if (const auto& warn = CurrentChoiceOptions().warn) {
    warn(message);
  } else {
    PrintWarning(message);
  }
}

}  // namespace

Choices ReadChoices(const ChoiceFile& file) {
  std::ifstream stream(file.path, std::ios::binary);
  if (!stream) return {};
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const auto fail = [&](size_t line, const char* reason) -> void {
    throw UserError(fmt::format("{}:{}: {}", file.path, line, reason));
  };

  const size_t checksum = text.rfind(kChecksum);
  uint64_t stated = 0;
  if (checksum == text.npos || text.back() != '\n' ||
      !ParseHex(std::string_view(text).substr(checksum + kChecksum.size(),
                                              text.size() - checksum - kChecksum.size() - 1),
                stated) ||
      stated != Fnv1a(std::string_view(text).substr(0, checksum))) {
    fail(1, "damaged: its checksum does not fit");
  }
  const std::vector<std::string_view> lines =
      Split(std::string_view(text).substr(0, checksum), '\n');
  if (lines.size() < 3 || lines[0] != file.title) fail(1, "not a file of this version");
  if (lines[1] != file.device) fail(2, "of another device or library");

  Choices choices;
  for (size_t i = 2; i + 1 < lines.size(); ++i) {  // the last line, before the checksum, is empty
    const std::vector<std::string_view> fields = Split(lines[i], ' ');
    Choice choice{};
    if (fields.size() != 3 || fields[0].empty() || fields[1].empty() ||
        !ParseMicroseconds(fields[2], choice.microseconds)) {
      fail(i + 1, "not a problem, a choice and a time");
    }
    choice.way = fields[1];
    if (!choices.emplace(fields[0], choice).second) fail(i + 1, "a problem given twice");
  }
  return choices;
}

void WriteChoices(const ChoiceFile& file, const Choices& choices) {
  std::string text = fmt::format("{}\n{}\n", file.title, file.device);
  for (const auto& [key, choice] : choices) {
    text += fmt::format("{} {} {:.3f}\n", key, choice.way, choice.microseconds);
  }
  text += fmt::format("{}{:016x}\n", kChecksum, Fnv1a(text));
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(file.path).parent_path(), error);
  WriteWhole(file.path, text);
}

ChoiceStore::ChoiceStore(const std::string& kind, const std::string& title,
                         const std::string& device)
    : file_{PathOf(kind, device), title, device} {
  if (file_.path.empty()) return;
  try {
    choices_ = ReadChoices(file_);
  } catch (const UserError& problem) {
    Warn(fmt::format("{}; algorithms are chosen anew", problem.what()));
  }
}

std::optional<std::string> ChoiceStore::Choose(const std::string& key,
                                               FunctionRef<bool(const std::string& way)> accepted,
                                               FunctionRef<std::optional<Choice>()> measure) {
  const auto known = choices_.find(key);
  if (known != choices_.end() && accepted(known->second.way)) return known->second.way;
  const std::optional<Choice> fastest = measure();
  if (!fastest) return std::nullopt;
  const Choice kept = Keep(key, *fastest, accepted);
  choices_[key] = kept;
  return kept.way;
}

// Returns the stored choice, which another process may have made.
Choice ChoiceStore::Keep(const std::string& key, const Choice& fastest,
                         FunctionRef<bool(const std::string& way)> accepted) {
  if (file_.path.empty()) return fastest;
  const FolderLock lock(std::filesystem::path(file_.path).parent_path());
  Choices all = choices_;
  try {
    for (const auto& [other, choice] : ReadChoices(file_)) all[other] = choice;
  } catch (const UserError&) {  // the first read has warned; the file is replaced
  }
  const auto known = all.find(key);
  if (known != all.end() && accepted(known->second.way)) return known->second;
  all[key] = fastest;
  try {
    WriteChoices(file_, all);
  } catch (const UserError& problem) {
    if (!warned_) Warn(fmt::format("{}; the next run chooses algorithms anew", problem.what()));
    warned_ = true;
  }
  return fastest;
}

}  // namespace plimsoll::ops
