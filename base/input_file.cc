#include "base/input_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>

#include "base/errno_text.h"
#include "base/error.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;

// Identifies the file to which a path leads. A file system may reuse the inode of a removed file;
// the creation time, if known, tells the two apart.
struct Identity {
  uint32_t device_major, device_minor;
  uint64_t inode;
  int64_t born_seconds;
  uint32_t born_nanoseconds;
  friend auto operator<=>(const Identity&, const Identity&) = default;
};

// Returns nullopt unless the path leads to a regular file.
std::optional<Identity> IdentityOf(const std::string& path) {
  struct statx info = {};
  constexpr unsigned kWanted = STATX_TYPE | STATX_INO | STATX_BTIME;
  if (statx(AT_FDCWD, path.c_str(), 0, kWanted, &info) != 0) return std::nullopt;
  if (!S_ISREG(info.stx_mode)) return std::nullopt;
  return Identity{info.stx_dev_major, info.stx_dev_minor, info.stx_ino, info.stx_btime.tv_sec,
                  info.stx_btime.tv_nsec};
}

struct Inputs {
  std::mutex mutex;
  std::set<Identity> files;
};

Inputs& AllInputs() {
  static Inputs inputs;
  return inputs;
}

[[noreturn]] void Fail(const std::string& path, const std::string& what) {
  throw UserError(path + ": " + what);
}

class Descriptor {
 public:
  // Opening never blocks, not even for a pipe without a writer.
  explicit Descriptor(const std::string& path)
      : number_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// Waits until data can be read, or everything has been read. Returns false if no writer came before
// the deadline.
bool AwaitWriter(int descriptor, Clock::time_point deadline) {
  pollfd waited = {.fd = descriptor, .events = POLLIN, .revents = 0};
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const int ready = poll(&waited, 1, static_cast<int>(std::max<int64_t>(0, left)));
    if (ready > 0) return true;
    if (ready == 0) return false;
  }
}

}  // namespace

std::string ReadInput(const std::string& path, size_t most, std::chrono::milliseconds patience) {
  const Descriptor file(path);
  if (file.number() < 0) {
    if (errno == ENOENT) Fail(path, "no such file");
    Fail(path, "cannot be read: " + ErrnoText(errno));
  }
  struct stat info = {};
  if (fstat(file.number(), &info) == 0 && S_ISDIR(info.st_mode)) {
    Fail(path, "is a folder; name a file");
  }
  NoteInput(path);
  const bool pipe = S_ISFIFO(info.st_mode);
  const Clock::time_point deadline = Clock::now() + patience;
  std::string text(most, '\0');
  size_t done = 0;
  while (done < most) {
    const ssize_t count = read(file.number(), text.data() + done, most - done);
    const int error = errno;
    pollfd waited = {.fd = file.number(), .events = POLLIN, .revents = 0};
    if (count > 0) {
      done += static_cast<size_t>(count);
    } else if (count < 0 && error == EAGAIN) {  // the pipe is empty for now: its writer is slow
      poll(&waited, 1, -1);
    } else if (count < 0 && error != EINTR) {
      Fail(path, "cannot be read: " + ErrnoText(error));
    } else if (count == 0) {
      // A pipe without a writer reads as empty, whether or not it has had a writer: POLLHUP tells.
      if (!pipe || done > 0 || poll(&waited, 1, 0) > 0) break;
      if (!AwaitWriter(file.number(), deadline)) {
        Fail(path, "is a pipe that nothing writes to; start its writer first, or name a file");
      }
    }
  }
  text.resize(done);
  return text;
}

std::ifstream OpenFile(const std::string& path) {
  std::error_code error;
  std::ifstream file;
  if (std::filesystem::is_regular_file(path, error)) {
    file.open(path, std::ios::binary);
  } else {
    file.setstate(std::ios::failbit);
  }
  return file;
}

void NoteInput(const std::string& path) {
  const std::optional<Identity> file = IdentityOf(path);
  if (!file) return;
  const std::lock_guard lock(AllInputs().mutex);
  AllInputs().files.insert(*file);
}

bool IsInput(const std::string& path) {
  const std::optional<Identity> file = IdentityOf(path);
  if (!file) return false;
  const std::lock_guard lock(AllInputs().mutex);
  return AllInputs().files.contains(*file);
}

}  // namespace plimsoll
