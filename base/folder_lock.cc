#include "base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "base/errno_text.h"
#include "base/error.h"
#include "base/message.h"
#include "base/write_all.h"

namespace plimsoll {
namespace {

std::string OwnName() {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  return "process " + std::to_string(getpid()) + " on host " + host;
}

// The text that the holder wrote to the file.
std::string HolderIn(int file) {
  char text[512];
  const ssize_t length = pread(file, text, sizeof(text), 0);
  return length > 0 ? std::string(text, static_cast<size_t>(length)) : "another process";
}

std::string LockFile(const std::string& folder) { return folder + "/.lock"; }

}  // namespace

FolderLock::FolderLock(const std::string& folder, const std::string& works)
    : path_(LockFile(folder)) {
  while (!Take(folder, works)) close(file_);
}

bool FolderLock::Take(const std::string& folder, const std::string& works) {
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) throw UserError(path_ + ": cannot be made: " + ErrnoText(errno));
  if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const std::string holder = HolderIn(file_);
    if (error == EWOULDBLOCK) {
      close(file_);
      throw UserError(folder + ": " + holder + " " + works);
    }
    PrintWarning(path_ + ": cannot be locked: " + ErrnoText(error) +
                 "; take care that no other process works there");
    return true;
  }
  struct stat own = {}, there = {};
  fstat(file_, &own);
  if (stat(path_.c_str(), &there) != 0 || there.st_ino != own.st_ino) return false;
  // Errors are ignored, as only the lock matters: on a full disk the file doesn't name the holder.
  const std::string name = OwnName();
  if (ftruncate(file_, 0) == 0) WriteAll(file_, std::as_bytes(std::span(name)));
  return true;
}

FolderLock::~FolderLock() {
  unlink(path_.c_str());
  close(file_);
}

std::optional<std::string> LockHolder(const std::string& folder) {
  const int file = open(LockFile(folder).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::optional<std::string> holder;
  if (flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) holder = HolderIn(file);
  close(file);
  return holder;
}

}  // namespace plimsoll
