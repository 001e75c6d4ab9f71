#include "runtime/caching_allocator/segments.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace plimsoll::runtime {

uintptr_t SimulatedSegments::Reserve(int64_t bytes) {
  if (bytes > limit_bytes_ - reserved_bytes_) return 0;
  reserved_bytes_ += bytes;
  const uintptr_t address = next_;
  // A gap behind each segment, so that a write beyond its end would fault.
  constexpr uintptr_t kPage = 4096;
  next_ += (static_cast<uintptr_t>(bytes) + 2 * kPage - 1) / kPage * kPage;
  return address;
}

void SimulatedSegments::Return(uintptr_t, int64_t bytes) { reserved_bytes_ -= bytes; }

uintptr_t MappedSegments::Reserve(int64_t bytes) {
  const size_t size = static_cast<size_t>(bytes);
  void* mapping = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return 0;
  // As for the arena (runtime/arena.cc); a refusal only costs speed.
  madvise(mapping, size, MADV_HUGEPAGE);
  return reinterpret_cast<uintptr_t>(mapping);
}

void MappedSegments::Return(uintptr_t address, int64_t bytes) {
  if (munmap(reinterpret_cast<void*>(address), static_cast<size_t>(bytes)) != 0) {
    throw InternalError(
        fmt::format("a segment of {} bytes cannot be returned: {}", bytes, std::strerror(errno)));
  }
}

void MappedSegments::Fill(uintptr_t address, int64_t bytes, unsigned char value) {
  std::memset(reinterpret_cast<void*>(address), value, static_cast<size_t>(bytes));
}

}  // namespace plimsoll::runtime
