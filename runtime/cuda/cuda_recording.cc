#include "runtime/cuda/cuda_recording.h"

#include <algorithm>
#include <vector>

#include "gpu/check.h"

namespace plimsoll::runtime {
namespace {

struct Destroy {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
using Graph = std::unique_ptr<CUgraph_st, Destroy>;

Graph Capture(cudaStream_t stream, const std::function<void()>& enqueue) {
  gpu::Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  cudaGraph_t captured = nullptr;
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(stream, &captured);
    Graph(captured).reset();
    cudaGetLastError();
    throw;
  }
  gpu::Check(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
  return Graph(captured);
}

bool IsPageable(const void* memory) {
  cudaPointerAttributes attributes{};
  gpu::Check(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  return attributes.type == cudaMemoryTypeUnregistered;
}

bool CopiesFromPageableMemory(cudaGraph_t graph) {
  size_t count = 0;
  gpu::Check(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes");
  std::vector<cudaGraphNode_t> nodes(count);
  gpu::Check(cudaGraphGetNodes(graph, nodes.data(), &count), "cudaGraphGetNodes");
  return std::ranges::any_of(nodes, [](cudaGraphNode_t node) {
    cudaGraphNodeType type{};
    if (cudaGraphNodeGetType(node, &type) != cudaSuccess) {
      // Only the driver's interface knows this kind of node (NCCL's waits for other GPUs); it is no
      // copy.
      cudaGetLastError();
      return false;
    }
    if (type == cudaGraphNodeTypeGraph) {
      cudaGraph_t child = nullptr;
      gpu::Check(cudaGraphChildGraphNodeGetGraph(node, &child), "cudaGraphChildGraphNodeGetGraph");
      return CopiesFromPageableMemory(child);
    }
    if (type != cudaGraphNodeTypeMemcpy) return false;
    cudaMemcpy3DParms copy{};
    gpu::Check(cudaGraphMemcpyNodeGetParams(node, &copy), "cudaGraphMemcpyNodeGetParams");
    return copy.srcPtr.ptr != nullptr && IsPageable(copy.srcPtr.ptr);
  });
}

}  // namespace

std::unique_ptr<CudaRecording> CudaRecording::Make(cudaStream_t stream,
                                                   const std::function<void()>& enqueue) {
  const Graph captured = Capture(stream, enqueue);
  if (CopiesFromPageableMemory(captured.get())) return nullptr;
  cudaGraphExec_t graph = nullptr;
  gpu::Check(cudaGraphInstantiate(&graph, captured.get(), 0), "cudaGraphInstantiate");
  return std::unique_ptr<CudaRecording>(new CudaRecording(graph));
}

void CudaRecording::Upload(cudaStream_t stream) const {
  gpu::Check(cudaGraphUpload(graph_, stream), "cudaGraphUpload");
}

void CudaRecording::Launch(cudaStream_t stream) const {
  gpu::Check(cudaGraphLaunch(graph_, stream), "cudaGraphLaunch");
}

}  // namespace plimsoll::runtime
