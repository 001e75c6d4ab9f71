#include "base/scratch_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <mutex>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/errno_text.h"
#include "base/error.h"
#include "base/write_all.h"

namespace plimsoll {
namespace {

std::mutex mutex;       // guards preferred
std::string preferred;  // empty: no preferred folder

std::vector<std::string> Folders() {
  std::vector<std::string> folders;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!preferred.empty()) folders.push_back(preferred);
  }
  const char* const named = std::getenv("TMPDIR");
  folders.emplace_back(named == nullptr || *named == '\0' ? "/tmp" : named);
  return folders;
}

// Opens an unnamed file. Returns -1, with the reason in errno, if the folder can have none.
int OpenUnnamed(const std::string& folder) {
  const int unnamed = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (unnamed >= 0) return unnamed;
  // Some file systems do not support unnamed files, so a named file is made and unlinked.
  std::string name = folder + "/plimsoll-XXXXXX";
  const int file = mkostemp(name.data(), O_CLOEXEC);
  if (file >= 0) unlink(name.c_str());
  return file;
}

int64_t FreeBytes(int file) {
  struct statvfs info = {};
  if (fstatvfs(file, &info) != 0) return 0;
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

}  // namespace

void PreferScratchFolder(const std::string& folder) {
  namespace fs = std::filesystem;
  fs::path there = folder;
  std::error_code error;
  while (!there.empty() && !fs::is_directory(there, error)) there = there.parent_path();
  if (there.empty() && !folder.empty()) there = ".";
  const std::lock_guard<std::mutex> lock(mutex);
  preferred = there.string();
}

ScratchFile::ScratchFile(Words words, int64_t wanted_bytes)
    : words_(std::move(words)), expected_(wanted_bytes) {
  int error = 0;
  int64_t most = 0;
  for (const std::string& folder : Folders()) {
    const int file = OpenUnnamed(folder);
    if (file < 0) {
      error = errno;
      if (file_ < 0) folder_ = folder;
      continue;
    }
    const int64_t room = FreeBytes(file);
    if (file_ >= 0 && room <= most) {
      close(file);
      continue;
    }
    if (file_ >= 0) close(file_);
    file_ = file;
    folder_ = folder;
    most = room;
    if (room >= wanted_bytes) break;
  }
  if (file_ < 0) Fail(error);
}

ScratchFile::ScratchFile(ScratchFile&& other) noexcept
    : words_(std::move(other.words_)),
      folder_(std::move(other.folder_)),
      file_(std::exchange(other.file_, -1)),
      bytes_(other.bytes_),
      expected_(other.expected_) {}

ScratchFile::~ScratchFile() {
  if (file_ >= 0) close(file_);
}

void ScratchFile::Write(std::span<const std::byte> bytes) {
  if (!WriteAll(file_, bytes)) Fail(errno);
  bytes_ += std::ssize(bytes);
}

void ScratchFile::Read(int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = pread(file_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) Fail(errno);
    if (count == 0) throw InternalError(words_.what + ": read past the end of its scratch file");
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += count;
  }
}

void ScratchFile::Fail(int error) const {
  std::string room;
  if (expected_ > bytes_) {
    room = fmt::format(" (after {} of about {})", FormatBytes(bytes_), FormatBytes(expected_));
  } else if (bytes_ > 0) {
    room = fmt::format(" (after {})", FormatBytes(bytes_));
  }
  throw UserError(fmt::format("{} into {}: {}{}; let TMPDIR name a folder with room, or {}",
                              words_.what, folder_, ErrnoText(error), room, words_.way_out));
}

}  // namespace plimsoll
