// The arenas on a GPU and in pinned host memory.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "gpu/libraries.h"
#include "runtime/cuda/cuda_executor.h"
#include "runtime/cuda/cuda_handles.h"
#include "runtime/cuda/cuda_inputs.h"
#include "runtime/cuda/cuda_streams.h"
#include "runtime/cuda/cuda_upload.h"
#include "runtime/cuda/gpu_memory.h"
#include "runtime/cuda/pinned_memory.h"
#include "runtime/device.h"

namespace plimsoll::runtime {

class CudaMemory : public DeviceMemory {
 public:
  // Allocates exactly these bytes on the GPU and on the host, in one allocation each. Host memory
  // is pinned when executors are made. `meter` was made before the process held anything on the
  // GPU. The communicators outlive this object; they already hold `communicator_bytes`, and
  // transfer data of the arena.
  CudaMemory(int64_t arena_bytes, int64_t host_arena_bytes, const CudaStreams& streams,
             gpu::Libraries& libraries, const std::optional<GpuMeter>& meter,
             std::vector<ops::Communicator*> communicators, int64_t communicator_bytes);
  ~CudaMemory() override;

  std::vector<std::unique_ptr<Executor>> MakeExecutors(std::span<const BoundProgram> programs,
                                                       const ExecutorOptions& options) override;
  std::vector<std::unique_ptr<Executor>> MakeExecutorsOn(std::span<TensorMemory* const> memories,
                                                         std::span<const BoundProgram> programs,
                                                         const ExecutorOptions& options) override;
  void Write(std::span<std::byte> to, const void* from) override;
  void Read(std::span<const std::byte> from, void* to) override;
  std::unique_ptr<Readback> MakeReadback(std::vector<std::span<const std::byte>> ranges) override;
  std::unique_ptr<InputMemory> MakeInputMemory(int places, int64_t bytes) override;
  double copy_seconds() const override { return upload_.copy_seconds(); }
  ProcessParts process_parts() const override { return parts_; }
  std::byte* Address(const MemoryRange& range) override;

 private:
  void HoldInputs(std::span<const BoundProgram> programs);
  void FillScratch(std::span<const BoundProgram> programs);
  void Clear(std::byte* data, int64_t bytes);
  int64_t ProcessBytes() const { return meter_ ? meter_->MeasureProcess().bytes : 0; }
  int64_t Grown();  // memory that the process has taken since the last call

  std::optional<GpuMeter> meter_;
  ProcessParts parts_;
  int64_t measured_ = 0;  // ProcessBytes() at the previous stage
  const CudaStreams& streams_;
  gpu::Libraries& libraries_;
  std::vector<ops::Communicator*> communicators_;
  // The pages of the host's arena are touched while the GPU's arena is allocated and executors are
  // bound.
  PinnedMemory host_arena_;
  CudaBuffer arena_;
  CudaUpload upload_;
  CudaInputs inputs_;
  std::optional<CudaConcurrentProgram> concurrent_;  // if one program runs concurrently
};

}  // namespace plimsoll::runtime
