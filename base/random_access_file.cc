#include "base/random_access_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/errno_text.h"
#include "base/error.h"
#include "base/input_file.h"

namespace plimsoll {
namespace {

[[noreturn]] void FailSystemCall(const std::string& path, const char* what, int error) {
  throw UserError(path + ": " + what + ": " + ErrnoText(error) +
                  (error == ENOENT ? " (check the path; it is relative to the folder Plimsoll was "
                                     "started in)"
                                   : ""));
}

[[noreturn]] void FailChanged(const std::string& path) {
  throw UserError(path + ": was changed while it was read; start again when nothing writes to it");
}

}  // namespace

RandomAccessFile::RandomAccessFile(const std::string& path, Noted noted)
    : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (descriptor_ < 0) FailSystemCall(path, "cannot be opened", errno);
  const int error = fstat(descriptor_, &info_) != 0 ? errno : 0;
  if (error == 0 && S_ISREG(info_.st_mode)) {
    if (noted == Noted::kYes) NoteInput(path);
    return;
  }
  close(descriptor_);
  if (error != 0) FailSystemCall(path, "cannot be examined", error);
  throw UserError(path + ": is not a regular file; name a file, or a pattern that matches files");
}

RandomAccessFile::RandomAccessFile(RandomAccessFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      info_(other.info_) {}

RandomAccessFile& RandomAccessFile::operator=(RandomAccessFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(info_, other.info_);
  return *this;
}

RandomAccessFile::~RandomAccessFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void RandomAccessFile::Read(int64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = pread(descriptor_, to.data(), to.size(), offset);
    if (count < 0) {
      if (errno == EINTR) continue;
      FailSystemCall(path_, "cannot be read", errno);
    }
    if (count == 0) FailChanged(path_);
    offset += count;
    to = to.subspan(static_cast<size_t>(count));
  }
}

void RandomAccessFile::WillRead(int64_t offset, int64_t bytes) const {
  posix_fadvise(descriptor_, offset, bytes, POSIX_FADV_WILLNEED);
}

void RandomAccessFile::RequireUnchanged() const {
  struct stat now = {};
  if (fstat(descriptor_, &now) != 0) FailSystemCall(path_, "cannot be examined", errno);
  const bool same = now.st_size == info_.st_size && now.st_mtim.tv_sec == info_.st_mtim.tv_sec &&
                    now.st_mtim.tv_nsec == info_.st_mtim.tv_nsec;
  if (!same) FailChanged(path_);
}

}  // namespace plimsoll
