// NCCL communicators: their creation, splitting and collectives.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "gpu/check.h"
#include "runtime/cuda/cuda_fence.h"
#include "runtime/ranks/communicator_of_one.h"
#include "runtime/ranks/cuda_communicator.h"

namespace plimsoll::runtime {
namespace {

// Does nothing on success; otherwise throws an InternalError with the call's name ("ncclAllReduce")
// and NCCL's message. `comm` is the communicator of the call, if any.
void CheckNccl(ncclResult_t status, const char* call, ncclComm_t comm = nullptr) {
  if (status == ncclSuccess) return;
  const char* const last = ncclGetLastError(comm);
  std::string details = last == nullptr ? "" : last;
  std::ranges::replace(details, '\n', ' ');
  throw InternalError(fmt::format("{}: {}{}{} (NCCL_DEBUG=WARN tells more)", call,
                                  ncclGetErrorString(status), details.empty() ? "" : ": ",
                                  details));
}

class CudaCommunicatorOfOne : public CommunicatorOfOne {
  void Copy(const void* from, void* to, int64_t bytes, void* stream) override {
    gpu::Check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                               static_cast<cudaStream_t>(stream)),
               "cudaMemcpyAsync");
  }
};

ncclDataType_t TypeOf(graph::DType dtype) {
  switch (dtype) {
    case graph::DType::kFloat32:
      return ncclFloat32;
    case graph::DType::kBFloat16:
      return ncclBfloat16;
    case graph::DType::kFloat16:
      return ncclFloat16;
    case graph::DType::kInt32:
      return ncclInt32;
    case graph::DType::kUInt8:
      return ncclUint8;
    case graph::DType::kFloat64:
    case graph::DType::kInt16:
    case graph::DType::kFloat8E4M3:
    case graph::DType::kFloat8E5M2:
      break;
  }
  throw InternalError(fmt::format("no reduction of {} between GPUs", graph::Name(dtype)));
}

ncclRedOp_t OperationOf(ops::Reduction reduction) {
  return reduction == ops::Reduction::kSum ? ncclSum : ncclMax;
}

cudaStream_t Stream(void* stream) { return static_cast<cudaStream_t>(stream); }

// Whether NCCL's kernels for registered memory may begin before the preceding kernel has written
// its results, as NCCL launches them from Hopper on. In these versions the kernels don't wait for
// the results, and would sum old values (fixed in NCCL 2.30.7: "Reintroduce
// cudaGridDependencySynchronize").
bool KernelsBeginEarly() {
  constexpr int kFrom = 22800, kMended = 23007, kHopper = 9;
  int version = 0, device = 0, major = 0;
  CheckNccl(ncclGetVersion(&version), "ncclGetVersion");
  gpu::Check(cudaGetDevice(&device), "cudaGetDevice");
  gpu::Check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
             "cudaDeviceGetAttribute");
  return version >= kFrom && version < kMended && major >= kHopper;
}

class NcclCommunicator : public ops::Communicator {
 public:
  // Takes ownership of `comm`, whose name is `name`. `hosts` are the same ranks, for messages
  // between hosts. `copies`: copy engines, not kernels, gather registered memory.
  NcclCommunicator(ncclComm_t comm, bool copies, std::unique_ptr<std::string> name,
                   std::unique_ptr<RankGroup> hosts)
      : Communicator(hosts->rank(), hosts->size()),
        name_(std::move(name)),
        comm_(comm),
        copies_(copies),
        hosts_(std::move(hosts)) {}

  // Waits for the other ranks and for this rank's work. While an exception unwinds the stack it
  // doesn't wait, since the other ranks may never come.
  ~NcclCommunicator() override {
    if (std::uncaught_exceptions() > 0) {
      ncclCommAbort(comm_);
    } else {
      ncclCommDestroy(comm_);
    }
  }

  void Register(void* memory, int64_t bytes) override {
    ncclWindow_t window = nullptr;
    const ncclResult_t status = ncclCommWindowRegister(comm_, memory, static_cast<size_t>(bytes),
                                                       &window, NCCL_WIN_COLL_SYMMETRIC);
    windows_[memory] = window;
    // If one rank can't register the memory, no rank registers it.
    const std::vector<std::string> all = hosts_->Gather(status == ncclSuccess ? "" : "no");
    if (std::ranges::find(all, "no") != all.end()) Deregister(memory);
  }

  void Deregister(void* memory) override {
    const auto found = windows_.find(memory);
    if (found == windows_.end()) return;
    if (found->second != nullptr) ncclCommWindowDeregister(comm_, found->second);
    windows_.erase(found);
  }

  ncclComm_t get() const { return comm_; }

  // A group of calls may become several kernels of NCCL, with no place for fences between them.
  void BeginGroup(ops::Calls kind) override {
    in_group_ = !NeedsFence(kind);
    if (in_group_) CheckNccl(ncclGroupStart(), "ncclGroupStart", comm_);
  }
  void EndGroup() override {
    if (std::exchange(in_group_, false)) CheckNccl(ncclGroupEnd(), "ncclGroupEnd", comm_);
  }

  void Barrier() override { hosts_->Barrier(); }

  void CheckErrors() override {
    ncclResult_t status = ncclSuccess;
    CheckNccl(ncclCommGetAsyncError(comm_, &status), "ncclCommGetAsyncError", comm_);
    CheckNccl(status, "ncclCommGetAsyncError", comm_);
  }

 private:
  void DoAllReduce(const void* from, void* to, int64_t count, graph::DType dtype,
                   ops::Reduction reduction, void* stream) override {
    FenceBefore(ops::Calls::kReduce, stream);
    CheckNccl(ncclAllReduce(from, to, static_cast<size_t>(count), TypeOf(dtype),
                            OperationOf(reduction), comm_, Stream(stream)),
              "ncclAllReduce", comm_);
  }
  void DoAllGather(const void* from, void* to, int64_t bytes, void* stream) override {
    FenceBefore(ops::Calls::kGather, stream);
    CheckNccl(ncclAllGather(from, to, static_cast<size_t>(bytes), ncclUint8, comm_, Stream(stream)),
              "ncclAllGather", comm_);
  }
  void DoReduceScatter(const void* from, void* to, int64_t count, graph::DType dtype,
                       ops::Reduction reduction, void* stream) override {
    FenceBefore(ops::Calls::kReduce, stream);
    CheckNccl(ncclReduceScatter(from, to, static_cast<size_t>(count), TypeOf(dtype),
                                OperationOf(reduction), comm_, Stream(stream)),
              "ncclReduceScatter", comm_);
  }
  void DoBroadcast(void* data, int64_t bytes, int root, void* stream) override {
    CheckNccl(ncclBroadcast(data, data, static_cast<size_t>(bytes), ncclUint8, root, comm_,
                            Stream(stream)),
              "ncclBroadcast", comm_);
  }
  void DoSend(const void* data, int64_t bytes, int peer, void* stream) override {
    CheckNccl(ncclSend(data, static_cast<size_t>(bytes), ncclUint8, peer, comm_, Stream(stream)),
              "ncclSend", comm_);
  }
  void DoReceive(void* data, int64_t bytes, int peer, void* stream) override {
    CheckNccl(ncclRecv(data, static_cast<size_t>(bytes), ncclUint8, peer, comm_, Stream(stream)),
              "ncclRecv", comm_);
  }

  bool NeedsFence(ops::Calls kind) const {
    return kernels_begin_early_ && !windows_.empty() && !(kind == ops::Calls::kGather && copies_);
  }
  void FenceBefore(ops::Calls kind, void* stream) {
    if (NeedsFence(kind)) EnqueueFence(Stream(stream));
  }

  std::unique_ptr<std::string> name_;  // NCCL may keep a pointer to the characters
  ncclComm_t comm_;
  bool copies_;
  std::unique_ptr<RankGroup> hosts_;
  // Registered memory; nullptr values if NCCL can't register.
  std::map<void*, ncclWindow_t> windows_;
  bool kernels_begin_early_ = KernelsBeginEarly();  // applies to kernels that read windows
  bool in_group_ = false;
};

// Throws if two ranks have the same GPU. Without this check NCCL would hang or report "invalid
// usage".
void CheckGpusDiffer(RankGroup& group) {
  int device = 0;
  gpu::Check(cudaGetDevice(&device), "cudaGetDevice");
  // A GPU's UUID is unique across hosts and containers.
  cudaDeviceProp properties = {};
  gpu::Check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  const std::string mine(properties.uuid.bytes, sizeof(properties.uuid.bytes));
  const std::vector<std::string> all = group.Gather(mine);
  for (size_t second = 0; second < all.size(); ++second) {
    const size_t first = std::ranges::find(all, all[second]) - all.begin();
    if (first == second) continue;
    throw UserError(fmt::format(
        "mpirun: ranks {} and {} have the same GPU; start as many ranks on a host as it "
        "has GPUs, and let each see all of them or one of its own (CUDA_VISIBLE_DEVICES)",
        first, second));
  }
}

// The result points to the characters of `name`.
ncclConfig_t ConfigOf(const CudaCommunicatorOptions& options, const std::string& name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  config.splitShare = options.shareable ? 1 : 0;
  config.collnetEnable = 0;
  if (options.min_channels > 0) config.minCTAs = options.min_channels;
  if (options.max_channels > 0) config.maxCTAs = options.max_channels;
  if (options.copy_engines) config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  if (!name.empty()) config.commName = name.c_str();
  return config;
}

ncclComm_t Initialize(RankGroup& group, ncclConfig_t config) {
  ncclUniqueId id = {};
  if (group.rank() == 0) CheckNccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  const std::string text = group.Broadcast({id.internal, sizeof(id.internal)});
  std::memcpy(id.internal, text.data(), sizeof(id.internal));
  ncclComm_t comm = nullptr;
  CheckNccl(ncclCommInitRankConfig(&comm, group.size(), id, group.rank(), &config),
            "ncclCommInitRankConfig");
  return comm;
}

}  // namespace

std::unique_ptr<ops::Communicator> MakeCudaCommunicator(RankGroup& group,
                                                        const CudaCommunicatorOptions& options,
                                                        ops::Communicator* parent) {
  // These must be set before NCCL first reads its environment. The buffers for each protocol and
  // channel are smaller than NCCL's own choice of 4 MiB and more, at the same rate
  // (docs/measured/parallelism.md).
  for (const auto& [name, value] : {std::pair{"NCCL_NVLS_ENABLE", "0"},
                                    {"NCCL_BUFFSIZE", "1048576"},
                                    {"NCCL_LL128_BUFFSIZE", "614400"},
                                    {"NCCL_LL_BUFFSIZE", "262144"}}) {
    setenv(name, value, /*overwrite=*/0);
  }
  auto* const shared = dynamic_cast<NcclCommunicator*>(parent);
  auto name = std::make_unique<std::string>(options.name);
  ncclConfig_t config = ConfigOf(options, *name);
  ncclComm_t comm = nullptr;
  if (shared != nullptr) {
    // The color of a part is its first rank in the parent, a number that no other part has.
    const int first = std::stoi(group.Broadcast(std::to_string(shared->rank())));
    const int color = group.size() > 1 ? first : NCCL_SPLIT_NOCOLOR;
    CheckNccl(ncclCommSplit(shared->get(), color, group.rank(), &comm, &config), "ncclCommSplit",
              shared->get());
  }
  if (group.size() == 1) return std::make_unique<CudaCommunicatorOfOne>();
  if (shared == nullptr) {
    CheckGpusDiffer(group);
    comm = Initialize(group, config);
  }
  return std::make_unique<NcclCommunicator>(comm, options.copy_engines, std::move(name),
                                            group.Split(0, group.rank()));
}

std::string NcclVersion() {
  int version = 0;
  CheckNccl(ncclGetVersion(&version), "ncclGetVersion");
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace plimsoll::runtime
