#include "runtime/cuda/cuda_input_memory.h"

namespace plimsoll::runtime {

CudaInputMemory::CudaInputMemory(int places, int64_t bytes, CudaInputs& inputs,
                                 cudaStream_t compute)
    : bytes_(bytes),
      inputs_(inputs),
      compute_(compute),
      pinned_(places * bytes, "pinned memory for prepared batches"),
      read_(static_cast<size_t>(places)) {
  pinned_.Await();
}

CudaInputMemory::~CudaInputMemory() {
  for (const Read& read : read_) {
    // A failure is reported where results are read.
    read.copies.WaitQuietly();
    read.compute.WaitQuietly();
  }
}

void CudaInputMemory::Write(int place, std::span<std::byte> to, const std::byte* from) {
  const Read& read = read_.at(static_cast<size_t>(place));
  if (inputs_.Copy(to, from, read.copies)) return;
  gpu::Check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDefault, compute_),
             "cudaMemcpyAsync");
  read.compute.Record(compute_);
}

void CudaInputMemory::Await(int place) {
  const Read& read = read_.at(static_cast<size_t>(place));
  read.copies.Wait();
  read.compute.Wait();
}

}  // namespace plimsoll::runtime
