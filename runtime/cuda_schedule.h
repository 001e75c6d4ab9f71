// A program as it is enqueued on a GPU: its nodes bound to kernels and addresses, in the order of
// the program, neighbours joined that can go into one launch, and copies in two halves.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "gpu/libraries.h"
#include "graph/program.h"
#include "ops/cuda_kernel.h"
#include "runtime/cuda_handles.h"
#include "runtime/layout.h"
#include "runtime/node_ranges.h"

namespace plimsoll::runtime {

// Where something runs; the numbers are those of NodeTime::stream.
enum CudaStreamIndex { kCompute = 0, kToHost = 1, kToDevice = 2 };

// A copy between the places, from its start to its end.
struct CudaCopy {
  graph::TensorId to = graph::kNoTensor;  // the tensor that owns the memory
  void* target = nullptr;
  const void* source = nullptr;
  size_t bytes = 0;
  CudaStreamIndex stream = kCompute;
  CudaEvent may_start, has_ended;
};

// What is enqueued at once: some nodes of one op, or one half of a copy.
struct CudaItem {
  enum class Kind { kKernels, kCopyStart, kCopyDone };
  Kind kind = Kind::kKernels;
  std::vector<int> nodes;  // in the order of the program
  const ops::CudaKernel* kernel = nullptr;
  size_t first_context = 0;  // theirs follow one another
  size_t copy = 0;
};

class CudaSchedule {
 public:
  // Program, memory, stream and libraries must outlive the schedule. With `copies_in_order`, copies
  // are part of the compute stream. Collectives always are. InternalError when an op has no CUDA
  // kernel, a workspace is too small, a tensor lies outside its arena, or a copy is done that was
  // not started.
  CudaSchedule(const graph::Program& program, const Layout& layout, ArenaBases bases,
               cudaStream_t compute, gpu::Libraries& libraries, bool copies_in_order,
               const ops::AxisCommunicators& communicators);

  const std::vector<CudaItem>& items() const { return items_; }
  const CudaCopy& copy(const CudaItem& item) const { return copies_[item.copy]; }
  std::span<const ops::CudaContext> contexts(const CudaItem& item) const {
    return {contexts_.data() + item.first_context, item.nodes.size()};
  }
  CudaStreamIndex StreamOf(const CudaItem& item) const {
    return item.kind == CudaItem::Kind::kCopyStart ? copy(item).stream : kCompute;
  }

 private:
  // Bytes that nodes read and write.
  struct Touched {
    using Ranges = std::vector<RangesByNode::Range>;
    Ranges reads, writes;

    bool Independent(const Touched& other) const;  // can both run at the same time?
    void Add(const Touched& other);
  };

  void Bind(int index);
  void BindCopyStart(int index);
  void BindCopyDone(int index);
  void BindKernel(int index);
  ops::TensorRef Ref(const graph::Node& node, graph::TensorId id) const;
  Touched TouchedBy(const graph::Node& node) const;

  const graph::Program& program_;
  const Layout& layout_;
  ArenaBases bases_;
  cudaStream_t compute_;
  gpu::Libraries& libraries_;
  bool copies_in_order_;
  ops::AxisCommunicators communicators_;

  std::vector<ops::TensorRef> refs_;        // arguments of all nodes; contexts point into it
  std::vector<ops::CudaContext> contexts_;  // of nodes with kernels
  std::vector<CudaCopy> copies_;
  std::vector<CudaItem> items_;
  Touched group_;  // of the last item with kernels
};

}  // namespace plimsoll::runtime
