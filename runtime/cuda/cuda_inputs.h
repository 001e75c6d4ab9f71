// Uploads inputs: what the host passes in before each run, such as a batch of images. Large inputs
// are copied to the GPU on a stream of their own, at the same time as the rest of the step. The
// copy starts when the last kernel that reads the previous inputs has ended.
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
  // Adds the large inputs of a program. They are persistent: no other tensor shares their memory.
  void Add(const graph::Program& program, const Layout& layout, std::byte* arena);

  // For each item of an added program, the events to record after it: one for each input that no
  // later item reads. The events live as long as this object.
  std::vector<std::vector<const CudaEvent*>> ReadsBy(const graph::Program& program,
                                                     const Layout& layout, std::byte* arena,
                                                     std::span<const CudaItem> items) const;

  // If the bytes are one of the added inputs, enqueues the copy and returns true.
  bool Write(std::span<std::byte> to, const void* from, CudaUpload& upload);
  // Like Write(), but from pinned memory, which the GPU reads directly until `read` has passed.
  bool Copy(std::span<std::byte> to, const std::byte* from, const CudaEvent& read);
  // Makes the stream wait for all inputs written so far.
  void Join(cudaStream_t stream);

 private:
  // Makes the copy stream wait for the input's last reader. Returns false if the bytes are not an
  // added input.
  bool AwaitReaders(std::span<std::byte> to);
  void Written();

  CudaStream stream_;
  CudaEvent written_;
  bool pending_ = false;  // inputs were written, and no stream has waited for them
  // Maps an input's address to the event that is recorded when the input's last reader has ended.
  std::map<const std::byte*, CudaEvent> read_;
};

}  // namespace plimsoll::runtime
