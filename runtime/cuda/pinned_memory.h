// Large pinned host memory, which the GPU copies from and to at full speed while it works. The
// driver alone pins about 2 GiB per second, page by page on one core. Here all cores but one touch
// huge pages first, and the driver then only registers them. It registers the memory in one piece,
// since a copy must not cross the border between two registrations.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <thread>
#include <vector>

namespace plimsoll::runtime {

// Throws a UserError which says that the system refuses to pin `bytes` bytes for `what`. Pinned
// memory cannot be swapped; therefore systems limit it.
[[noreturn]] void RefusePinning(std::string_view reason, int64_t bytes, const char* what);

class PinnedMemory {
 public:
  // Maps exactly these bytes, starts threads that touch them, and returns; needs no GPU. `what`
  // names the memory in errors and must outlive this object. Throws a UserError naming `what` and
  // the bytes if the system refuses them.
  PinnedMemory(int64_t bytes, const char* what);
  // Frees the memory, whether it is registered or not. No work of the GPU may still use it.
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // Helps to touch the remaining pages and registers the memory with the current GPU; does nothing
  // when called again. Call this before the first access by host or GPU: all bytes are zero then.
  // Other threads' driver calls wait while it registers. Throws like the constructor.
  void Await();

  // The address is known from the start, so that work can be bound to it.
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void Touch();
  void EndTouching();

  int64_t bytes_;
  const char* what_;
  std::byte* data_ = nullptr;
  std::atomic<int64_t> next_{0};  // the first byte that no thread has begun to touch
  std::vector<std::thread> threads_;
  bool registered_ = false;
};

}  // namespace plimsoll::runtime
