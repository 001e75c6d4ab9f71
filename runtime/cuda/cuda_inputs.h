// Upload of inputs: what the host hands in before each run, such as a batch of images. Large inputs
// travel to the GPU on a stream of their own as soon as the last kernel that reads the ones before
// has ended, at the same time as the rest of the step.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "graph/program.h"
#include "runtime/cuda/cuda_handles.h"
#include "runtime/cuda/cuda_schedule.h"
#include "runtime/cuda/cuda_upload.h"
#include "runtime/layout.h"

namespace plimsoll::runtime {

class CudaInputs {
 public:
  // Adds the large inputs of a program, which are persistent: nothing else has their memory.
  void Add(const graph::Program& program, const Layout& layout, std::byte* arena);

  // By item, of a program that was added: the events to record behind it, each for an input that
  // nothing after it reads. They live as long as this object.
  std::vector<std::vector<const CudaEvent*>> ReadsBy(const graph::Program& program,
                                                     const Layout& layout, std::byte* arena,
                                                     std::span<const CudaItem> items) const;

  // Enqueues the copy and returns true, if the bytes are one of these inputs.
  bool Write(std::span<std::byte> to, const void* from, CudaUpload& upload);
  // The same from pinned memory, which the GPU reads where it lies until `read` has passed.
  bool Copy(std::span<std::byte> to, const std::byte* from, const CudaEvent& read);
  // Lets the stream wait for all that was written.
  void Join(cudaStream_t stream);

 private:
  // Lets the stream wait for the input's last reader. False: the bytes are none of these inputs.
  bool AwaitReaders(std::span<std::byte> to);
  void Written();

  CudaStream stream_;
  CudaEvent written_;
  bool pending_ = false;                        // written, and no stream has waited for it
  std::map<const std::byte*, CudaEvent> read_;  // by address: its last reader has ended
};

}  // namespace plimsoll::runtime
