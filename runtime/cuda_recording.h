// What a stream is given, recorded as a CUDA graph and replayed.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

namespace plimsoll::runtime {

class CudaRecording {
 public:
  // Records what `enqueue` gives to `stream` and to the streams that it forks from there; nothing
  // of it runs. nullptr where replays would not do the same: something in it copies from pageable
  // memory of the host, of which only the address is recorded. cuDNN 9.14 does so in the backward
  // pass of attention with lengths of sequences that are no multiple of its tiles, and frees them.
  // An exception from `enqueue` ends the recording and passes through.
  static std::unique_ptr<CudaRecording> Make(cudaStream_t stream,
                                             const std::function<void()>& enqueue);
  ~CudaRecording() { cudaGraphExecDestroy(graph_); }
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;

  // Brings it to the GPU ahead of the first Launch().
  void Upload(cudaStream_t stream) const;
  // Replays it once, behind what the stream has to do.
  void Launch(cudaStream_t stream) const;

 private:
  explicit CudaRecording(cudaGraphExec_t graph) : graph_(graph) {}

  cudaGraphExec_t graph_;
};

}  // namespace plimsoll::runtime
