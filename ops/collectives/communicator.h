// Collective calls among ranks, as kernels make them: one rank's view of a group of ranks that hold
// tensors of equal layout. Implementations are in runtime/: a group of one, MPI between CPUs, NCCL
// between GPUs.
//
// Every rank of the group makes the same calls, in the same order, with the same counts, types and
// roots; otherwise all of them may wait for ever. Counts are in elements. The caller provides the
// buffers: host memory on the CPU, memory of the current device on a GPU. Calls allocate nothing.
//
// `stream` is a cudaStream_t: the call enqueues its work there and returns at once. It may be
// captured in a CUDA graph, if all ranks do so. On the CPU `stream` is nullptr, and the call
// returns when this rank's part is done: its input may be overwritten, and its output is complete.
//
// Types: data of any type can be moved. Reductions take f32, bf16, f16, i32 and u8, on the CPU also
// f64; u8 and i32 wrap around. Errors: InternalError for impossible counts, ranks or types, and for
// a failure that MPI or NCCL reports, with the name of its call.
#pragma once

#include <cstdint>

#include "graph/dtype.h"

namespace plimsoll::ops {

enum class Reduction : uint8_t {
  // The sum, with the same bits on all ranks. On the CPU elements are added in the order of the
  // ranks, 16-bit ones in float32, rounded once at the end: AllReduce gives the bits of
  // ReduceScatter and AllGather, and an element's sum depends neither on the count nor on its
  // position. NCCL has its own order, fixed for a count and a group, and rounds after each
  // addition.
  kSum,
  // The maximum of a number and a NaN is the number.
  kMax,
};

// The kinds of calls that are grouped: AllReduce and ReduceScatter, or AllGather.
enum class Calls : uint8_t { kReduce, kGather };

class Communicator {
 public:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }  // 0 ≤ rank < size
  int size() const { return size_; }

  // to[i] = reduction over ranks of from[i], i < count. `to` may be `from`; otherwise they must not
  // overlap.
  void AllReduce(const void* from, void* to, int64_t count, graph::DType dtype, Reduction reduction,
                 void* stream);

  // to[r·count + i] = from[i] of rank r: [count] on each rank becomes [size·count] on all. `from`
  // may be this rank's own part of `to`.
  void AllGather(const void* from, void* to, int64_t count, graph::DType dtype, void* stream);

  // to[i] = reduction over ranks of from[rank·count + i]: [size·count] on each rank becomes this
  // rank's [count]. `to` may be this rank's own part of `from`; the rest of `from` stays unchanged.
  void ReduceScatter(const void* from, void* to, int64_t count, graph::DType dtype,
                     Reduction reduction, void* stream);

  // data[i] = data[i] of rank `root`.
  void Broadcast(void* data, int64_t count, graph::DType dtype, int root, void* stream);

  // Sends to `peer`, which must receive the same count. If two ranks exchange data, one of them
  // must receive first: if both send first, they may wait for ever.
  void Send(const void* data, int64_t count, graph::DType dtype, int peer, void* stream);
  void Receive(void* data, int64_t count, graph::DType dtype, int peer, void* stream);

  // Calls of that kind between BeginGroup() and EndGroup() may be enqueued as one, at EndGroup().
  // They must not depend on each other.
  virtual void BeginGroup(Calls /*kind*/) {}
  virtual void EndGroup() {}

  // Registers device memory with all ranks before work on it is enqueued; all ranks register the
  // same number of bytes. GPUs then transfer directly, without intermediate buffers, if a call's
  // arguments are in this memory at the same offsets on all ranks (except for a rank's own part).
  // The memory must have been allocated as shareable (runtime/cuda/cuda_handles.h). Has no effect
  // where this is not possible.
  virtual void Register(void* /*memory*/, int64_t /*bytes*/) {}
  // Call this before the memory is freed, when no rank works on the memory any more.
  virtual void Deregister(void* /*memory*/) {}

  // Blocks the host until all ranks have called it. Doesn't wait for work on streams.
  virtual void Barrier() = 0;

  // Throws when enqueued work is known to have failed. Never waits.
  virtual void CheckErrors() {}

 private:
  // Implementations. The arguments have been checked: count > 0, a peer is another rank of the
  // group, a root any rank of it; `bytes` is the size of all elements.
  virtual void DoAllReduce(const void* from, void* to, int64_t count, graph::DType dtype,
                           Reduction reduction, void* stream) = 0;
  virtual void DoAllGather(const void* from, void* to, int64_t bytes, void* stream) = 0;
  virtual void DoReduceScatter(const void* from, void* to, int64_t count, graph::DType dtype,
                               Reduction reduction, void* stream) = 0;
  virtual void DoBroadcast(void* data, int64_t bytes, int root, void* stream) = 0;
  virtual void DoSend(const void* data, int64_t bytes, int peer, void* stream) = 0;
  virtual void DoReceive(void* data, int64_t bytes, int peer, void* stream) = 0;

  int rank_;
  int size_;
};

}  // namespace plimsoll::ops
