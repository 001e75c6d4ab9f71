#include "tests/runtime/allocation_counter.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace plimsoll {
namespace {

std::atomic<int64_t> allocations{0};

}  // namespace

int64_t AllocationCount() { return allocations.load(); }

}  // namespace plimsoll

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

// Of the sanitizers' runtime; its header does not come with every compiler.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*,
                                                                             size_t),
                                                         void (*free_hook)(const volatile void*));

namespace plimsoll {
namespace {

void CountAllocation(const volatile void*, size_t) { allocations.fetch_add(1); }
void IgnoreFree(const volatile void*) {}

const int installed = __sanitizer_install_malloc_and_free_hooks(&CountAllocation, &IgnoreFree);

}  // namespace
}  // namespace plimsoll

#else

// glibc's own functions under their other names.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  plimsoll::allocations.fetch_add(1);
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  plimsoll::allocations.fetch_add(1);
  return __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  plimsoll::allocations.fetch_add(1);
  return __libc_realloc(old, size);
}
void* memalign(size_t alignment, size_t size) {
  plimsoll::allocations.fetch_add(1);
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** result, size_t alignment, size_t size) {
  void* memory = memalign(alignment, size);
  if (memory == nullptr) return ENOMEM;
  *result = memory;
  return 0;
}
}

#endif
