#include "base/folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void FailToRead(const std::string& path, const std::error_code& error) {
  throw UserError(fmt::format("{}: cannot be read: {}", path, error.message()));
}

std::string TargetOf(const std::string& link) {
  std::error_code ignored;
  return fs::read_symlink(link, ignored).string();
}

// The type of `path`, with links followed; not_found if the name doesn't exist.
fs::file_type TypeOf(const std::string& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::not_found && fs::is_symlink(fs::symlink_status(path, error))) {
    throw UserError(
        fmt::format("{}: is a link to {}, which does not exist; remove it, or bring back what it "
                    "names",
                    path, TargetOf(path)));
  }
  if (type == fs::file_type::none) FailToRead(path, error);
  return type;
}

// Visits the files below a folder. Returns false if visit wanted to stop. `above`: this folder and
// the folders that contain it. `link`: the last link on the path to it, or nothing.
bool VisitBelow(const std::string& folder, const std::string& link, std::vector<std::string>& above,
                FunctionRef<bool(const std::string&)> visit) {
  const FolderNames names = NamesIn(folder);
  for (const std::string& name : names.files) {
    if (!visit((fs::path(folder) / name).string())) return false;
  }
  for (const std::string& name : names.folders) {
    const std::string path = (fs::path(folder) / name).string();
    std::error_code error;
    const bool is_link = fs::is_symlink(fs::symlink_status(path, error));
    const std::string& last = is_link ? path : link;
    // Only through a link can a folder contain itself.
    if (!last.empty() && std::ranges::any_of(above, [&](const std::string& holder) {
          return fs::equivalent(path, holder, error);
        })) {
      throw UserError(
          fmt::format("{}: is a link to {}, by which a folder would hold itself; "
                      "remove it",
                      last, TargetOf(last)));
    }
    above.push_back(path);
    if (!VisitBelow(path, last, above, visit)) return false;
    above.pop_back();
  }
  return true;
}

}  // namespace

bool IsFolder(const std::string& path) { return TypeOf(path) == fs::file_type::directory; }

bool IsThere(const std::string& path) { return TypeOf(path) != fs::file_type::not_found; }

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

FolderNames NamesIn(const std::string& folder) {
  FolderNames names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::end(entry);
       entry.increment(error)) {
    std::string name = entry->path().filename();
    if (name.starts_with('.')) continue;
    // If the entry is no link, its type is known without another call.
    std::error_code ignored;
    const fs::file_type own = entry->symlink_status(ignored).type();
    const fs::file_type type = own == fs::file_type::symlink ? TypeOf(entry->path().string()) : own;
    if (type == fs::file_type::directory) names.folders.push_back(std::move(name));
    if (type == fs::file_type::regular) names.files.push_back(std::move(name));
  }
  if (error) FailToRead(folder, error);
  std::ranges::sort(names.files);
  std::ranges::sort(names.folders);
  return names;
}

void ForEachFileBelow(const std::string& folder, FunctionRef<bool(const std::string&)> visit) {
  std::vector<std::string> above = {folder};
  VisitBelow(folder, "", above, visit);
}

}  // namespace plimsoll
