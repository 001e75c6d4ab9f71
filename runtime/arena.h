// The single allocation that holds all of training's tensors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll::runtime {

struct ArenaOptions {
  // Ask the kernel for huge pages (fewer TLB misses; pages then come 2 MiB at a time).
  bool huge_pages = true;
  // Touch all pages at once instead of at their first use.
  bool populate = false;
  // For tests: inaccessible pages directly before the arena and after its last page, and canary
  // bytes between the planned end and the end of its page (see CheckCanary).
  bool canary = false;
};

// `bytes` of zeroed anonymous memory, rounded up to whole pages, page-aligned. Throws a UserError
// that names the bytes when the system refuses, InternalError when `bytes` is negative.
class Arena {
 public:
  explicit Arena(int64_t bytes, ArenaOptions options = {});
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* data() const { return data_; }  // nullptr only when bytes() is 0
  int64_t bytes() const { return bytes_; }
  int64_t mapped_bytes() const { return mapped_bytes_; }  // bytes() in whole pages

  // With options.canary: throws InternalError when a byte behind the planned end was written.
  void CheckCanary() const;

 private:
  std::byte* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;  // guard pages included
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t mapped_bytes_ = 0;
  bool canary_ = false;
};

}  // namespace plimsoll::runtime
