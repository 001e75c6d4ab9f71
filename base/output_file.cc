#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>  // rename
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/errno_text.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/write_all.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr std::chrono::seconds kPatience{10};  // waits this long for the reader of a pipe

// The folder of this process's file descriptors, to which /dev/stdout and /dev/fd/1 lead.
std::string DescriptorFolder() { return "/proc/" + std::to_string(getpid()) + "/fd"; }

// The descriptor that `target` names; -1 if it names none of this process's descriptors.
int DescriptorOf(const std::string& target) {
  const fs::path path(target);
  const std::string name = path.filename();
  const bool number = !name.empty() && name.size() < 10 && std::ranges::all_of(name, [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
  return number && path.parent_path() == DescriptorFolder() ? std::atoi(name.c_str()) : -1;
}

// Opens a device, or a pipe once its reader has come, within kPatience. Returns -1 with the reason
// in errno.
int OpenInPlace(const std::string& path) {
  const Clock::time_point deadline = Clock::now() + kPatience;
  while (true) {
    // O_NONBLOCK: waiting for the reader of a pipe could take forever.
    const int file = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file >= 0 || errno != ENXIO || Clock::now() >= deadline) return file;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

std::string FollowLinks(const std::string& path) {
  constexpr int kMostLinks = 40;
  fs::path target(path);
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code error;
    const fs::path folder =
        fs::canonical(target.has_parent_path() ? target.parent_path() : ".", error);
    if (error) break;
    const fs::path full = folder / target.filename();
    if (DescriptorOf(full) >= 0) return full;  // the text of such a link is not a path
    const fs::path next = fs::read_symlink(full, error);
    if (error) break;
    target = next.is_absolute() ? next : folder / next;
  }
  return target;
}

void RefuseInput(const std::string& path, const std::string& option) {
  if (!IsInput(path)) return;
  throw UserError(option + ": " + path + " is one of the files that are read; name another one");
}

void WriteOutput(const std::string& path, const std::string& option, std::string_view text) {
  RefuseInput(path, option);
  WriteWhole(path, text);
}

void WriteWhole(const std::string& path, std::string_view text, OutputFile::Sync sync) {
  OutputFile file(path);
  file.Write(text);
  file.Commit(sync);
}

OutputFile::OutputFile(const std::string& path) : path_(path), target_(FollowLinks(path)) {
  buffer_.reserve(kBufferBytes);
  struct stat there = {};
  const bool exists = stat(target_.c_str(), &there) == 0;
  if (const int descriptor = DescriptorOf(target_); descriptor >= 0) {
    file_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  } else if (exists && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode)) {
    file_ = OpenInPlace(target_);
  } else {
    temporary_ = target_ + ".tmp." + std::to_string(getpid());
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file_ >= 0 && exists) fchmod(file_, there.st_mode & 0777);  // keeps the permissions
  }
  if (file_ < 0) Fail(temporary_.empty() ? "cannot be written" : "cannot be created");
}

OutputFile::~OutputFile() {
  if (file_ < 0) return;
  close(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void OutputFile::Fail(const char* what) const {
  const int error = errno;
  const char* way_out = "; choose a folder that exists and can be written to";
  if (error == ENOSPC || error == EDQUOT) {
    way_out = "; free some space or choose another folder";
  } else if (error == EMFILE || error == ENFILE) {
    way_out = "";
  } else if (temporary_.empty()) {
    way_out = error == ENXIO ? " (a pipe that nothing reads); start its reader first" : "";
  }
  throw UserError(path_ + ": " + what + ": " + ErrnoText(error) + way_out);
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
  if (temporary_.empty()) {
    if (close(std::exchange(file_, -1)) != 0) Fail("cannot be written");
    return;
  }
  if (sync == Sync::kYes && fsync(file_) != 0) Fail("cannot be written");
  if (rename(temporary_.c_str(), target_.c_str()) != 0) Fail("cannot be replaced");
  close(file_);
  file_ = -1;
  if (sync == Sync::kNo) return;
  SyncNames(fs::path(target_).parent_path());  // makes the rename itself durable
}

void SyncNames(const std::string& folder) {
  const int handle =
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return;
  fsync(handle);
  close(handle);
}

}  // namespace plimsoll
