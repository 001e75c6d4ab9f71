#include "runtime/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll::runtime {
namespace {

constexpr int kCanary = 0xC5;

}  // namespace

Arena::Arena(int64_t bytes, ArenaOptions options) : bytes_(bytes), canary_(options.canary) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  if (bytes < 0 || bytes > std::numeric_limits<int64_t>::max() - 3 * page) {
    throw InternalError(fmt::format("arena of {} bytes", bytes));
  }
  if (bytes == 0) return;
  mapped_bytes_ = (bytes + page - 1) / page * page;
  const int64_t guard = options.canary ? page : 0;
  mapping_bytes_ = static_cast<size_t>(mapped_bytes_ + 2 * guard);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (options.populate ? MAP_POPULATE : 0);
  void* mapping = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (mapping == MAP_FAILED) {
    throw UserError(
        fmt::format("memory: the system refuses an arena of {} ({} bytes): {}; free "
                    "memory, or use a smaller micro-batch, sequence or model",
                    FormatBytes(bytes), bytes, std::strerror(errno)));
  }
  mapping_ = static_cast<std::byte*>(mapping);
  data_ = mapping_ + guard;
  if (options.canary) {
    mprotect(mapping_, static_cast<size_t>(guard), PROT_NONE);
    mprotect(data_ + mapped_bytes_, static_cast<size_t>(guard), PROT_NONE);
    std::memset(data_ + bytes_, kCanary, static_cast<size_t>(mapped_bytes_ - bytes_));
  }
  // This is only a hint: systems without huge pages refuse it, and nothing is lost.
  if (options.huge_pages) madvise(data_, static_cast<size_t>(mapped_bytes_), MADV_HUGEPAGE);
}

Arena::~Arena() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

void Arena::CheckCanary() const {
  if (!canary_) return;
  for (int64_t i = bytes_; i < mapped_bytes_; ++i) {
    if (data_[i] != std::byte{kCanary}) {
      throw InternalError(fmt::format("arena: byte {} was written, {} after the planned end of {}",
                                      i, i - bytes_, bytes_));
    }
  }
}

}  // namespace plimsoll::runtime
