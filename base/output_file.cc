#include "base/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>  // rename
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace plimsoll {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

// False on failure, with the reason in errno.
bool WriteAll(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

OutputFile::OutputFile(const std::string& path)
    : path_(path), temporary_(path + ".tmp." + std::to_string(getpid())) {
  file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) Fail("cannot be created");
  buffer_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
  if (file_ < 0) return;
  close(file_);
  unlink(temporary_.c_str());
}

void OutputFile::Fail(const char* what) const {
  const int error = errno;
  const char* way_out = error == ENOSPC || error == EDQUOT
                            ? "; free some space or choose another folder"
                            : "; choose a folder that exists and can be written to";
  throw UserError(path_ + ": " + what + ": " + std::strerror(error) + way_out);
}

void OutputFile::Write(std::span<const std::byte> bytes) {
  if (file_ < 0) throw InternalError("OutputFile: " + path_ + " was written to after Commit()");
  if (bytes.size() > kBufferBytes - buffer_.size()) Flush();
  if (bytes.size() < kBufferBytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return;
  }
  if (!WriteAll(file_, bytes)) Fail("cannot be written");
}

void OutputFile::Write(std::string_view text) { Write(std::as_bytes(std::span(text))); }

void OutputFile::Flush() {
  if (!WriteAll(file_, buffer_)) Fail("cannot be written");
  buffer_.clear();
}

void OutputFile::Commit(Sync sync) {
  if (file_ < 0) throw InternalError("OutputFile: " + path_ + " was committed twice");
  Flush();
  if (sync == Sync::kYes && fsync(file_) != 0) Fail("cannot be written");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) Fail("cannot be replaced");
  close(file_);
  file_ = -1;
  if (sync == Sync::kNo) return;
  // The rename itself must survive a power cut as well; a file system that cannot sync folders is
  // no reason to fail.
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  const int handle =
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle >= 0) {
    fsync(handle);
    close(handle);
  }
}

}  // namespace plimsoll
