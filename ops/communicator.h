// Collective calls among ranks, as kernels make them: one rank's view of a group of ranks that hold
// tensors of equal layout. Implementations are in runtime/: a group of one, MPI between CPUs, NCCL
// between GPUs.
//
// Every rank of the group makes the same calls, in the same order, with the same counts, types and
// roots; otherwise all of them may wait for ever. Counts are in elements. Buffers are the caller's:
// on the CPU memory of the host, on a GPU memory of the current device. Calls allocate nothing.
//
// `stream` is a cudaStream_t: the call enqueues its work there, returns at once and may be captured
// in a CUDA graph, on all ranks alike. On the CPU it is nullptr, and the call returns when this
// rank's part is done: its input may be overwritten, its output is there.
//
// Types: data is moved in any type. Reductions take f32, bf16, f16, i32 and u8, on the CPU also
// f64; u8 and i32 wrap around. Errors: InternalError for counts, ranks or types that cannot be, and
// when MPI or NCCL reports a failure, with the name of its call.
#pragma once

#include <cstdint>

#include "graph/dtype.h"

namespace plimsoll::ops {

enum class Reduction : uint8_t {
  // All ranks get the same bits. On the CPU elements are added in the order of the ranks, those of
  // 16 bits in float32 and rounded once at the end: AllReduce gives the bits of ReduceScatter and
  // AllGather, and the sum of an element depends neither on the count nor on its place. NCCL has an
  // order of its own, fixed for a count and a group, and rounds after each addition.
  kSum,
  // Of a number and a NaN, the number.
  kMax,
};

// AllReduce and ReduceScatter, or AllGather.
enum class Calls : uint8_t { kReduce, kGather };

class Communicator {
 public:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }  // 0 ≤ rank < size
  int size() const { return size_; }

  // to[i] = reduction over ranks of from[i], i < count. `to` may be `from`; otherwise they are
  // apart.
  void AllReduce(const void* from, void* to, int64_t count, graph::DType dtype, Reduction reduction,
                 void* stream);

  // to[r·count + i] = from[i] of rank r: [count] of each rank to [size·count] on all. `from` may be
  // this rank's own part of `to`, where it already lies in its place.
  void AllGather(const void* from, void* to, int64_t count, graph::DType dtype, void* stream);

  // to[i] = reduction over ranks of from[rank·count + i]: [size·count] on each rank to the [count]
  // that is this rank's. `to` may be this rank's own part of `from`; the rest of `from` stays.
  void ReduceScatter(const void* from, void* to, int64_t count, graph::DType dtype,
                     Reduction reduction, void* stream);

  // data[i] = data[i] of rank `root`.
  void Broadcast(void* data, int64_t count, graph::DType dtype, int root, void* stream);

  // From this rank to `peer`, which receives as much. A pair that exchanges data lets one side
  // receive first: two sends that face each other may wait for ever.
  void Send(const void* data, int64_t count, graph::DType dtype, int peer, void* stream);
  void Receive(void* data, int64_t count, graph::DType dtype, int peer, void* stream);

  // Calls of that kind in between may be enqueued as one, at EndGroup(); they do not depend on each
  // other.
  virtual void BeginGroup(Calls /*kind*/) {}
  virtual void EndGroup() {}

  // All ranks make memory of their devices known to each other, as many bytes each, before work on
  // it is enqueued. Of calls whose arguments lie in it, at the same places on all ranks but for a
  // rank's own part, GPUs then move the bytes themselves, without buffers in between. It must have
  // been allocated to be shared (runtime/cuda_handles.h). Without effect where that is not
  // possible.
  virtual void Register(void* /*memory*/, int64_t /*bytes*/) {}
  // When no rank works on it any more, and before it is given back.
  virtual void Deregister(void* /*memory*/) {}

  // The host waits until all ranks are here. Work on streams is not waited for.
  virtual void Barrier() = 0;

  // Throws when work that was enqueued earlier is known to have failed. Never waits.
  virtual void CheckErrors() {}

 private:
  // With arguments that were checked: count > 0, root and peer are other ranks of the group or, for
  // a root, this one; `bytes` is that of all elements.
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
