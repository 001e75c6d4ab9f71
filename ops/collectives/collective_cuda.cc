// Collectives, enqueued by NCCL on the kernel's stream. Consecutive nodes of one kind form a group,
// which NCCL runs as one kernel. A rank that is the only one of its axis only copies.
#include "gpu/check.h"
#include "ops/collectives/collective_calls.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

void Copy(const TensorRef& from, const TensorRef& to, void* stream) {
  if (from.data == to.data) return;
  gpu::Check(cudaMemcpyAsync(to.data, from.data, static_cast<size_t>(from.type.bytes()),
                             cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)),
             "cudaMemcpyAsync");
}

using Call = void(const KernelCall&, void*, CopyTensor*);

template <Call* call>
void Run(const CudaContext& ctx) {
  call(ctx, ctx.stream, &Copy);
}

// Consecutive nodes along different axes form different groups.
template <Call* call, Calls kind>
void RunGroup(std::span<const CudaContext> nodes) {
  for (size_t first = 0; first < nodes.size();) {
    Communicator* const ranks = nodes[first].ranks;
    if (ranks != nullptr) ranks->BeginGroup(kind);
    size_t n = first;
    for (; n < nodes.size() && nodes[n].ranks == ranks; ++n) Run<call>(nodes[n]);
    if (ranks != nullptr) ranks->EndGroup();
    first = n;
  }
}

template <Call* call, Calls kind>
CudaKernel KernelOf(const char* op) {
  return {.op = op, .run = &Run<call>, .run_group = &RunGroup<call, kind>};
}

const CudaKernelRegistration kAllReduce(
    KernelOf<&CallAllReduce, Calls::kReduce>("all_reduce_start"));
const CudaKernelRegistration kReduceScatter(
    KernelOf<&CallReduceScatter, Calls::kReduce>("reduce_scatter_start"));
const CudaKernelRegistration kAllGather(
    KernelOf<&CallAllGather, Calls::kGather>("all_gather_start"));

}  // namespace
}  // namespace plimsoll::ops
