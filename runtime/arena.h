// An arena: the single allocation that holds all tensors of training.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll::runtime {

struct ArenaOptions {
  // Whether to ask the kernel for huge pages (fewer TLB misses; memory then comes in 2 MiB pages).
  bool huge_pages = true;
  // Whether to touch all pages at once instead of at their first use.
  bool populate = false;
  // For tests: adds inaccessible pages directly before the arena and after its last page, and
  // canary bytes between the planned end and the end of its page (see CheckCanary).
  bool canary = false;
};

// Holds `bytes` of zeroed anonymous memory, page-aligned and rounded up to full pages. Throws a
// UserError that names the bytes if the system refuses them, InternalError if `bytes` is negative.
class Arena {
 public:
  explicit Arena(int64_t bytes, ArenaOptions options = {});
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* data() const { return data_; }  // nullptr only when bytes() is 0
  int64_t bytes() const { return bytes_; }
  int64_t mapped_bytes() const { return mapped_bytes_; }  // bytes() rounded up to full pages

  // With options.canary: throws InternalError if a byte after the planned end was written.
  void CheckCanary() const;

 private:
  std::byte* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;  // including guard pages
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t mapped_bytes_ = 0;
  bool canary_ = false;
};

}  // namespace plimsoll::runtime
