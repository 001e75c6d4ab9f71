// Buffers for batches in pinned memory: the GPU copies inputs directly from where the host has
// prepared them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "runtime/cuda/cuda_handles.h"
#include "runtime/cuda/cuda_inputs.h"
#include "runtime/cuda/pinned_memory.h"
#include "runtime/input_memory.h"

namespace plimsoll::runtime {

class CudaInputMemory : public InputMemory {
 public:
  // Large inputs are copied on the stream of `inputs`, others on `compute`. Both must outlive this
  // object. Throws a UserError naming the bytes if the system refuses to pin them.
  CudaInputMemory(int places, int64_t bytes, CudaInputs& inputs, cudaStream_t compute);
  ~CudaInputMemory() override;

  int places() const override { return static_cast<int>(read_.size()); }
  std::span<std::byte> place(int place) override {
    return {pinned_.data() + place * bytes_, static_cast<size_t>(bytes_)};
  }
  void Write(int place, std::span<std::byte> to, const std::byte* from) override;
  void Await(int place) override;

 private:
  // Events after the last copies from a place (a buffer for one batch), on the copy stream and on
  // the compute stream. A thread that waits for them sleeps.
  struct Read {
    CudaEvent copies{CudaEvent::Kind::kAwaited}, compute{CudaEvent::Kind::kAwaited};
  };

  int64_t bytes_;  // size of a place
  CudaInputs& inputs_;
  cudaStream_t compute_;
  PinnedMemory pinned_;
  std::vector<Read> read_;  // the reads of each place; the destructor waits for them
};

}  // namespace plimsoll::runtime
