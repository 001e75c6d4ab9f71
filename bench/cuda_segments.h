// Segments of a caching allocator on a GPU: each is one cudaMalloc, and one cudaFree when the cache
// is emptied. Counts and times both calls.
#pragma once

#include <cstdint>

#include "runtime/segments.h"

namespace plimsoll::bench {

struct CudaCalls {
  int64_t mallocs = 0, frees = 0;
  double malloc_seconds = 0, free_seconds = 0;
};

class CudaSegments : public runtime::SegmentSource {
 public:
  // 0 when the GPU has too little memory. Throws as gpu::Check on other failures.
  uintptr_t Reserve(int64_t bytes) override;
  void Return(uintptr_t address, int64_t bytes) override;

  // The calls since the last TakeCalls().
  CudaCalls TakeCalls();

 private:
  CudaCalls calls_;
};

}  // namespace plimsoll::bench
