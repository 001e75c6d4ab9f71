#include "snapshots/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>  // renameat2
#include <cstring>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/output_file.h"
#include "snapshots/snapshot.h"

namespace plimsoll::snapshots {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kReplaced = ".replaced";

std::string NameOf(int64_t step) { return fmt::format("{}{:09}", kPrefix, step); }

[[noreturn]] void Fail(const std::string& path, const char* what, int error) {
  throw UserError(fmt::format("{}: {}: {}", path, what, std::strerror(error)));
}

void Rename(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) Fail(to, "cannot be renamed to", errno);
}

void RemoveAll(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) Fail(path, "cannot be removed", error.value());
}

bool Exists(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0;
}

// Exchanges both names atomically; returns false if the file system can't.
bool Exchange(const std::string& a, const std::string& b) {
  if (renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) {
    Fail(b, "cannot be replaced", errno);
  }
  return false;
}

// The step numbers of all names in the folder that end with `suffix`.
std::set<int64_t> StepsWith(const std::string& folder, std::string_view suffix) {
  std::set<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.ends_with(suffix)) continue;
    const auto step = StepOf(name.substr(0, name.size() - suffix.size()));
    if (step) steps.insert(*step);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    Fail(folder, "cannot be read", error.value());
  }
  return steps;
}

}  // namespace

std::optional<int64_t> StepOf(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (NameOf(step) != name) return std::nullopt;
  return step;
}

std::string Folder::PathOf(int64_t step) const { return path_ + "/" + NameOf(step); }

std::string Folder::PartialOf(int64_t step) const { return PathOf(step) + std::string(kPartial); }

std::string Folder::ReplacedOf(int64_t step) const { return PathOf(step) + std::string(kReplaced); }

std::vector<int64_t> Folder::Steps() const {
  const std::set<int64_t> steps = StepsWith(path_, "");
  return {steps.begin(), steps.end()};
}

void Folder::Recover() const {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) Fail(path_, "cannot be created", error.value());
  for (const int64_t step : StepsWith(path_, kReplaced)) {
    if (Exists(PathOf(step))) {
      RemoveAll(ReplacedOf(step));
    } else {
      Rename(ReplacedOf(step), PathOf(step));
    }
  }
  for (const int64_t step : StepsWith(path_, kPartial)) RemoveAll(PartialOf(step));
  SyncNames(path_);
}

void Folder::Begin(int64_t step) const {
  const std::string partial = PartialOf(step);
  RemoveAll(partial);
  if (mkdir(partial.c_str(), 0777) != 0) Fail(partial, "cannot be created", errno);
}

void Folder::Finish(const Manifest& manifest) const {
  const std::string partial = PartialOf(manifest.step);
  WriteWhole(partial + "/" + kManifestFile, ToText(manifest));
  Snapshot read_back(partial);
}

void Folder::Publish(int64_t step) const {
  const std::string partial = PartialOf(step), path = PathOf(step), replaced = ReplacedOf(step);
  if (!Exists(path)) {
    Rename(partial, path);
    SyncNames(path_);
    return;
  }
  if (Exchange(partial, path)) {
    SyncNames(path_);
    RemoveAll(partial);  // after the exchange, the older snapshot has this name
    return;
  }
  RemoveAll(replaced);
  Rename(path, replaced);
  Rename(partial, path);
  SyncNames(path_);
  RemoveAll(replaced);
}

void Folder::Abandon(int64_t step) const noexcept {
  std::error_code ignored;
  fs::remove_all(PartialOf(step), ignored);
}

// Renames the snapshot before it removes files, so that a folder with a complete snapshot's name
// never lacks files.
void Folder::Remove(int64_t step) const {
  const std::string doomed = PartialOf(step);
  RemoveAll(doomed);
  Rename(PathOf(step), doomed);
  SyncNames(path_);
  RemoveAll(doomed);
}

void Folder::Prune(int64_t current, const Retention& retention) const {
  std::vector<int64_t> older;
  for (const int64_t step : Steps()) {
    if (step > current) {
      Remove(step);
    } else {
      older.push_back(step);
    }
  }
  if (retention.newest == 0) return;
  older.resize(older.size() - std::min(older.size(), static_cast<size_t>(retention.newest)));
  for (const int64_t step : older) {
    const bool kept = retention.every > 0 && step % retention.every == 0;
    if (!kept && step != retention.best) Remove(step);
  }
}

}  // namespace plimsoll::snapshots
