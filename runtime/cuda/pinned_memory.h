// Large pinned memory of the host, which the GPU copies from and to at full speed while it works.
// The driver alone pins about 2 GiB a second, page by page on one core. Here all cores but one
// touch huge pages, which the driver then only registers: in one piece, since a copy must not cross
// the border of two.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <thread>
#include <vector>

namespace plimsoll::runtime {

// Throws a UserError which says that the system refuses `what`, `bytes` bytes of pinned memory.
// Pinned memory cannot be swapped; therefore systems limit it.
[[noreturn]] void RefusePinning(std::string_view reason, int64_t bytes, const char* what);

class PinnedMemory {
 public:
  // Maps exactly these bytes, begins to touch them on threads of its own and returns; needs no GPU.
  // `what` names the memory in errors and must outlive this object. Throws a UserError naming
  // `what` and the bytes when the system refuses them.
  PinnedMemory(int64_t bytes, const char* what);
  // Gives the memory back, whether it is registered or not. No work of the GPU may still use it.
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // Helps to touch the rest and registers the memory with the current GPU; does nothing when called
  // again. Call it before the first access by host or GPU: all bytes are zero then. It keeps other
  // threads out of the driver for as long as it registers. Throws like the constructor.
  void Await();

  // Known from the start, so that work can be bound to it.
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
