// A program in the form in which it is enqueued on a GPU. Its nodes are bound to kernels and
// addresses, in the order of the program. Neighbours that can share one launch are joined, and
// copies and collectives have a start and an end.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "gpu/libraries.h"
#include "graph/program.h"
#include "ops/collectives/axis.h"
#include "ops/cuda_kernel.h"
#include "runtime/cuda/cuda_handles.h"
#include "runtime/cuda/cuda_streams.h"
#include "runtime/layout.h"
#include "runtime/node_ranges.h"
#include "runtime/tensor_memory.h"

namespace plimsoll::runtime {

// Asynchronous work (a copy between device and host, or collectives), from its start to its end.
struct CudaSideWork {
  std::vector<graph::TensorId> gives;  // the tensors that own the memory that the work writes
  CudaStreamIndex stream = kCompute;
  CudaEvent may_start, has_ended;
  // For one copy of a tensor, or of several tensors that are neighbours in both places.
  void* target = nullptr;
  const void* source = nullptr;
  size_t bytes = 0;
};

// The work of one enqueue: nodes of one op, or the start or the end of asynchronous work.
struct CudaItem {
  enum class Kind { kKernels, kCopy, kDone };
  static constexpr size_t kNoSide = static_cast<size_t>(-1);

  Kind kind = Kind::kKernels;
  std::vector<int> nodes;  // in the order of the program
  const ops::CudaKernel* kernel = nullptr;
  size_t first_context = 0;  // the nodes' contexts are consecutive
  size_t side = kNoSide;     // index of the asynchronous work that the item starts or waits for
};

class CudaSchedule {
 public:
  // Program, memory, streams and libraries must outlive the schedule. With `in_order`, asynchronous
  // work runs on the compute stream. `memory` holds the tensors. If addresses in `memory` change,
  // the bases only tell tensors apart; call Resolve() before each launch, and let only the launch's
  // first node allocate memory. Throws InternalError if an op has no CUDA kernel, a workspace is
  // too small, a tensor lies outside its arena, or a …_done node has no matching start.
  CudaSchedule(const graph::Program& program, const Layout& layout, ArenaBases bases,
               const CudaStreams& streams, gpu::Libraries& libraries, bool in_order,
               const ops::AxisCommunicators& communicators, const TensorMemory& memory);

  // Updates the arguments of the item's node number `i` to their current addresses. Throws
  // InternalError if an argument has no memory.
  void Resolve(const CudaItem& item, size_t i);

  const std::vector<CudaItem>& items() const { return items_; }
  const CudaSideWork& side(const CudaItem& item) const { return side_works_[item.side]; }
  std::span<const ops::CudaContext> contexts(const CudaItem& item) const {
    return {contexts_.data() + item.first_context, item.nodes.size()};
  }
  // Whether the item starts work that runs at the same time as the compute stream.
  bool Forks(const CudaItem& item) const {
    return item.side != CudaItem::kNoSide && item.kind != CudaItem::Kind::kDone &&
           side(item).stream != kCompute;
  }
  CudaStreamIndex StreamOf(const CudaItem& item) const {
    return Forks(item) ? side(item).stream : kCompute;
  }

 private:
  // The bytes that nodes read and write.
  struct Touched {
    using Ranges = std::vector<RangesByNode::Range>;
    Ranges reads, writes;

    bool Independent(const Touched& other) const;  // whether both can run at the same time
    void Add(const Touched& other);
  };

  void Bind(int index);
  void BindCopy(int index);
  bool JoinsCopyBefore(const CudaSideWork& copy) const;
  void BindDone(int index);
  void BindKernel(int index);
  CudaStreamIndex StreamOfKernel(const graph::Node& node) const;
  void Append(CudaItem item, CudaSideWork work);
  ops::TensorRef Ref(const graph::Node& node, graph::TensorId id) const;
  Touched TouchedBy(const graph::Node& node) const;

  const graph::Program& program_;
  const Layout& layout_;
  ArenaBases bases_;
  const CudaStreams& streams_;
  gpu::Libraries& libraries_;
  bool in_order_;
  ops::AxisCommunicators communicators_;
  const TensorMemory& memory_;

  std::vector<ops::TensorRef> refs_;        // arguments of all nodes; contexts point into it
  std::vector<ops::CudaContext> contexts_;  // contexts of nodes with kernels
  std::vector<CudaSideWork> side_works_;
  std::vector<CudaItem> items_;
  Touched group_;  // accesses of the last item with kernels
};

}  // namespace plimsoll::runtime
