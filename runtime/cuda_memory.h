// The arenas on a GPU and in pinned host memory.
#pragma once

#include <memory>
#include <vector>

#include "gpu/libraries.h"
#include "runtime/cuda_executor.h"
#include "runtime/cuda_handles.h"
#include "runtime/cuda_upload.h"
#include "runtime/device.h"

namespace plimsoll::runtime {

class CudaMemory : public DeviceMemory {
 public:
  // One cudaMalloc and one cudaHostAlloc of exactly these bytes.
  CudaMemory(int64_t arena_bytes, int64_t host_arena_bytes, const CudaStreams& streams,
             gpu::Libraries& libraries);
  ~CudaMemory() override;

  std::vector<std::unique_ptr<Executor>> MakeExecutors(std::span<const BoundProgram> programs,
                                                       const ExecutorOptions& options) override;
  void Write(const MemoryRange& to, const void* from) override;
  void Read(const MemoryRange& from, void* to) override;
  std::unique_ptr<Readback> MakeReadback(std::vector<MemoryRange> ranges) override;
  std::byte* HostAddress(graph::Place) override { return nullptr; }

 private:
  void FillScratch(std::span<const BoundProgram> programs);
  void Clear();
  std::byte* At(const MemoryRange& range) const;

  const CudaStreams& streams_;
  gpu::Libraries& libraries_;
  CudaBuffer arena_, host_arena_;
  CudaUpload upload_;
};

}  // namespace plimsoll::runtime
