// CUDA graph capture: work enqueued on a stream is recorded as a CUDA graph and replayed.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

namespace plimsoll::runtime {

class CudaRecording {
 public:
  // Records the work that `enqueue` enqueues on `stream` and on streams forked from it; none of it
  // runs. Returns nullptr if a replay would do something else: if the work copies from pageable
  // host memory, of which only the address is recorded. cuDNN 9.14 does so, and frees that memory,
  // in the backward pass of attention if sequence lengths are no multiple of its tiles. An
  // exception from `enqueue` ends the recording and is passed on.
  static std::unique_ptr<CudaRecording> Make(cudaStream_t stream,
                                             const std::function<void()>& enqueue);
  ~CudaRecording() { cudaGraphExecDestroy(graph_); }
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;

  // Transfers the graph to the GPU before the first Launch().
  void Upload(cudaStream_t stream) const;
  // Replays the graph once, after the work that is already on the stream.
  void Launch(cudaStream_t stream) const;

 private:
  explicit CudaRecording(cudaGraphExec_t graph) : graph_(graph) {}

  cudaGraphExec_t graph_;
};

}  // namespace plimsoll::runtime
