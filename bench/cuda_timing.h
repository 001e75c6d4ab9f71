// Timing of work on the GPU, and the common parts of this folder's main functions.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "gpu/check.h"

namespace plimsoll::bench {

// Seconds of the median replay, as a CUDA graph, of the work that `enqueue` puts on the stream.
template <typename Enqueue>
double MedianSeconds(cudaStream_t stream, const Enqueue& enqueue, int replays = 7) {
  enqueue();
  gpu::Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  gpu::Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  enqueue();
  cudaGraph_t graph;
  gpu::Check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t executable;
  gpu::Check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  cudaEvent_t begin, end;
  gpu::Check(cudaEventCreate(&begin), "cudaEventCreate");
  gpu::Check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<float> times;
  for (int i = 0; i < replays + 1; ++i) {
    gpu::Check(cudaEventRecord(begin, stream), "cudaEventRecord");
    gpu::Check(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
    gpu::Check(cudaEventRecord(end, stream), "cudaEventRecord");
    gpu::Check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    gpu::Check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    if (i > 0) times.push_back(milliseconds);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2] * 1e-3;
}

// Bytes per second, read and written, of a copy of 1 GiB. Not captured into a graph: there the copy
// engine would do it, which is slower than the kernel that copies otherwise.
inline double CopyBandwidth(cudaStream_t stream) {
  constexpr size_t kBytes = size_t{1} << 30;
  void *from = nullptr, *to = nullptr;
  gpu::Check(cudaMalloc(&from, kBytes), "cudaMalloc");
  gpu::Check(cudaMalloc(&to, kBytes), "cudaMalloc");
  cudaEvent_t begin, end;
  gpu::Check(cudaEventCreate(&begin), "cudaEventCreate");
  gpu::Check(cudaEventCreate(&end), "cudaEventCreate");
  float best = 0;
  for (int i = 0; i < 8; ++i) {
    gpu::Check(cudaEventRecord(begin, stream), "cudaEventRecord");
    gpu::Check(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, stream),
               "cudaMemcpyAsync");
    gpu::Check(cudaEventRecord(end, stream), "cudaEventRecord");
    gpu::Check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    gpu::Check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    if (i == 1 || (i > 1 && milliseconds < best)) best = milliseconds;
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaFree(from);
  cudaFree(to);
  return 2.0 * static_cast<double>(kBytes) / (best * 1e-3);
}

inline cudaStream_t NewStream() {
  cudaStream_t stream;
  gpu::Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
             "cudaStreamCreateWithFlags");
  return stream;
}

// Prints the first line of the program, the copy's bandwidth, and returns it.
inline double PrintCopyBandwidth(const char* device, cudaStream_t stream) {
  const double copy = CopyBandwidth(stream);
  std::printf("%s: copies %.0f GB/s (read and written)\n", device, copy * 1e-9);
  return copy;
}

// Runs the program with its arguments and returns its exit code.
template <typename Run>
int Main(int argc, char** argv, const Run& run) {
  try {
    run(std::vector<std::string>(argv + 1, argv + argc));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace plimsoll::bench
