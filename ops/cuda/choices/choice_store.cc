#include "ops/cuda/choices/choice_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>

#include "base/error.h"
#include "base/message.h"
#include "ops/cuda/choices/choice_options.h"

namespace plimsoll::ops {
namespace {

// Locks a folder, which is created if need be, for one process at a time. If it can't be locked,
// each process goes on as if it were alone.
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

// Returns the stored choice, which may be that of another process.
Choice ChoiceStore::Keep(const std::string& key, const Choice& fastest,
                         FunctionRef<bool(const std::string& way)> accepted) {
  if (file_.path.empty()) return fastest;
  const FolderLock lock(std::filesystem::path(file_.path).parent_path());
  Choices all = choices_;
  try {
    for (const auto& [other, choice] : ReadChoices(file_)) all[other] = choice;
  } catch (const UserError&) {  // a warning was given at the first read; the file is replaced
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
