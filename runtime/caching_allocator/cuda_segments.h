// Segments of a caching allocator on a GPU, as frameworks take them: each is one cudaMalloc, or, on
// the host, one allocation of pinned memory. Returning one waits for all work of the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "graph/tensor.h"
#include "runtime/caching_allocator/segments.h"

namespace plimsoll::runtime {

class CudaSegments : public SegmentSource {
 public:
  // Fill() is enqueued on the stream, which must outlive this object.
  CudaSegments(graph::Place place, cudaStream_t stream) : place_(place), stream_(stream) {}

  // 0 when there is too little memory. Throws as gpu::Check on other failures.
  uintptr_t Reserve(int64_t bytes) override;
  void Return(uintptr_t address, int64_t bytes) override;
  void Fill(uintptr_t address, int64_t bytes, unsigned char value) override;

 private:
  graph::Place place_;
  cudaStream_t stream_;
};

}  // namespace plimsoll::runtime
