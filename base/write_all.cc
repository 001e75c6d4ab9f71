#include "base/write_all.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace plimsoll {

bool WriteAll(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd waited = {.fd = descriptor, .events = POLLOUT, .revents = 0};
      poll(&waited, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace plimsoll
