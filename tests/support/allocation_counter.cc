#include "tests/support/allocation_counter.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace plimsoll {
namespace {

std::atomic<int64_t> allocations{0};

void Count() { allocations.fetch_add(1, std::memory_order_relaxed); }

}  // namespace
}  // namespace plimsoll

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

// The sanitizer has already replaced malloc, and reports each allocation. (gcc installs no header
// that declares this.)
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*,
                                                                           size_t),
                                                         void (*on_free)(const volatile void*));

namespace plimsoll {
namespace {

void OnMalloc(const volatile void*, size_t) { Count(); }
void OnFree(const volatile void*) {}
const int hooks_installed = __sanitizer_install_malloc_and_free_hooks(&OnMalloc, &OnFree);

}  // namespace
}  // namespace plimsoll

#else

// The C library's own functions under their second names; operator new calls malloc.
extern "C" {

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  plimsoll::Count();
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  plimsoll::Count();
  return __libc_calloc(count, size);
}

void* realloc(void* old, size_t size) {
  plimsoll::Count();
  return __libc_realloc(old, size);
}

void* memalign(size_t alignment, size_t size) {
  plimsoll::Count();
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** out, size_t alignment, size_t size) {
  void* memory = memalign(alignment, size);
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}

}  // extern "C"

#endif

namespace plimsoll {

int64_t AllocationCount() { return allocations.load(); }

int64_t CountAllocations(FunctionRef<void()> code) {
  const int64_t before = AllocationCount();
  code();
  return AllocationCount() - before;
}

}  // namespace plimsoll
