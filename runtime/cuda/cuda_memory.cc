#include "runtime/cuda/cuda_memory.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/stage.h"
#include "runtime/cuda/cuda_fill.h"
#include "runtime/cuda/cuda_input_memory.h"
#include "runtime/cuda/cuda_stored_parameter.h"

namespace plimsoll::runtime {
namespace {

void Enqueue(std::byte* to, std::span<const std::byte> from, cudaStream_t stream) {
  if (from.empty()) return;
  gpu::Check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyDefault, stream),
             "cudaMemcpyAsync");
}

class CudaReadback : public Readback {
 public:
  CudaReadback(std::vector<std::span<const std::byte>> ranges, cudaStream_t stream)
      : ranges_(std::move(ranges)),
        stream_(stream),
        pinned_(CudaBuffer::Kind::kPinned,
                static_cast<int64_t>(std::accumulate(ranges_.begin(), ranges_.end(), size_t{0},
                                                     [](size_t sum, std::span<const std::byte> r) {
                                                       return sum + Rounded(r.size());
                                                     })),
                "pinned memory for metrics") {}

  ~CudaReadback() override { cudaStreamSynchronize(stream_); }

  void Start() override {
    std::byte* to = pinned_.data();
    for (const std::span<const std::byte> range : ranges_) {
      Enqueue(to, range, stream_);
      to += Rounded(range.size());
    }
    arrived_.Record(stream_);
  }

  const std::byte* Wait() override {
    arrived_.Wait();
    return pinned_.data();
  }

  std::optional<double> SecondsSince(const Readback& earlier) const override {
    return 1e-6 * arrived_.MicrosecondsSince(static_cast<const CudaReadback&>(earlier).arrived_);
  }

 private:
  std::vector<std::span<const std::byte>> ranges_;
  cudaStream_t stream_;
  CudaBuffer pinned_;
  CudaEvent arrived_{CudaEvent::Kind::kTime};
};

// Whether kernels, and not only copies, use the host's arena. Preparing such kernels may write to
// their operands there.
bool HasKernelOnHost(const graph::Program& program) {
  return std::ranges::any_of(program.nodes(), [&](const graph::Node& node) {
    const auto on_host = [&](graph::TensorId id) {
      return id != graph::kNoTensor && program.tensor(id).place == graph::Place::kHost;
    };
    return !node.op->view && node.op->transfer != graph::Transfer::kCopyStart &&
           (std::ranges::any_of(node.inputs, on_host) ||
            std::ranges::any_of(node.outputs, on_host) || on_host(node.workspace));
  });
}

// Bytes of the inputs that the host passes in before a run of the program.
int64_t InputBytes(const graph::Program& program) {
  int64_t bytes = 0;
  for (const graph::Tensor& tensor : program.tensors()) {
    if (tensor.role == graph::Role::kInput && !tensor.alias) bytes += tensor.bytes();
  }
  return bytes;
}

}  // namespace

CudaMemory::CudaMemory(int64_t arena_bytes, int64_t host_arena_bytes, const CudaStreams& streams,
                       gpu::Libraries& libraries, const std::optional<GpuMeter>& meter,
                       std::vector<ops::Communicator*> communicators, int64_t communicator_bytes)
    : DeviceMemory(arena_bytes, host_arena_bytes),
      meter_(meter),
      measured_(ProcessBytes()),
      streams_(streams),
      libraries_(libraries),
      communicators_(std::move(communicators)),
      host_arena_(host_arena_bytes, "pinned host memory"),
      arena_(communicators_.empty() ? CudaBuffer::Kind::kDevice : CudaBuffer::Kind::kShared,
             arena_bytes, "an arena") {
  parts_.libraries = std::min(libraries_.handle_bytes(), measured_ - communicator_bytes);
  parts_.communicators = communicator_bytes;
  parts_.context = measured_ - communicator_bytes - parts_.libraries;
  parts_.arena = Grown();
  for (ops::Communicator* ranks : communicators_) ranks->Register(arena_.data(), arena_.bytes());
  parts_.communicators += Grown();
}

CudaMemory::~CudaMemory() {
  // Waits first: no work may still write to memory that is freed.
  inputs_.Join(streams_.compute.get());
  cudaStreamSynchronize(streams_.compute.get());
  for (ops::Communicator* ranks : communicators_) ranks->Deregister(arena_.data());
}

void CudaMemory::Clear(std::byte* data, int64_t bytes) {
  if (bytes == 0) return;
  const cudaStream_t stream = streams_.compute.get();
  gpu::Check(cudaMemsetAsync(data, 0, static_cast<size_t>(bytes), stream), "cudaMemsetAsync");
  gpu::Check(cudaStreamSynchronize(stream), "cudaMemsetAsync");
}

// Fills scratch memory with numbers: products of zeros take less power, and so less time. Integers
// become 0. This suits token ids, since 0 is a valid row of every table.
void CudaMemory::FillScratch(std::span<const BoundProgram> programs) {
  const cudaStream_t stream = streams_.compute.get();
  FillPlausible(arena_.data(), arena_.bytes(), graph::DType::kBFloat16, 0, stream);
  for (const BoundProgram& bound : programs) {
    for (const graph::Tensor& tensor : bound.program->tensors()) {
      const auto id = static_cast<graph::TensorId>(&tensor - bound.program->tensors().data());
      const int64_t offset = bound.layout->offset(id);
      if (tensor.place != graph::Place::kDevice || graph::IsFloat(tensor.type.dtype) ||
          !tensor.persistent || tensor.alias || offset == kUnplaced || tensor.bytes() == 0) {
        continue;
      }
      gpu::Check(
          cudaMemsetAsync(arena_.data() + offset, 0, static_cast<size_t>(tensor.bytes()), stream),
          "cudaMemsetAsync");
    }
  }
}

void CudaMemory::HoldInputs(std::span<const BoundProgram> programs) {
  int64_t inputs = 0;
  for (const BoundProgram& bound : programs) inputs = std::max(inputs, InputBytes(*bound.program));
  upload_.Hold(inputs);
}

std::vector<std::unique_ptr<Executor>> CudaMemory::MakeExecutorsOn(
    std::span<TensorMemory* const> memories, std::span<const BoundProgram> programs,
    const ExecutorOptions& options) {
  // Addresses without memory, which only tell tensors apart.
  const ArenaBases nowhere = {reinterpret_cast<std::byte*>(uintptr_t{1} << 48),
                              reinterpret_cast<std::byte*>(uintptr_t{1} << 49)};
  HoldInputs(programs);
  std::vector<std::unique_ptr<Executor>> executors;
  for (size_t i = 0; i < programs.size(); ++i) {
    executors.push_back(std::make_unique<CudaExecutor>(*programs[i].program, *programs[i].layout,
                                                       nowhere, streams_, libraries_, options,
                                                       nullptr, memories[i]));
  }
  return executors;
}

std::vector<std::unique_ptr<Executor>> CudaMemory::MakeExecutors(
    std::span<const BoundProgram> programs, const ExecutorOptions& options) {
  HoldInputs(programs);
  for (const BoundProgram& bound : programs) {
    if (!bound.concurrent) continue;
    if (concurrent_)
      throw InternalError("two programs cannot both run concurrently with the others");
    concurrent_.emplace(*bound.program);
  }
  // Instruments read the arena until a run has ended, so inputs may not be copied concurrently.
  const bool looks = options.poison || options.check_arena || options.check_finite;
  std::vector<std::unique_ptr<CudaExecutor>> made;
  for (const BoundProgram& bound : programs) {
    const ArenaBases bases{arena_.data(), host_arena_.data()};
    CheckLayoutFits(*bound.program, *bound.layout, arena_.bytes(), host_arena_.bytes());
    if (bound.concurrent) {
      made.push_back(std::make_unique<CudaConcurrentExecutor>(
          *bound.program, *bound.layout, bases, streams_, *concurrent_, libraries_, options));
    } else {
      if (!looks) inputs_.Add(*bound.program, *bound.layout, arena_.data());
      made.push_back(std::make_unique<CudaExecutor>(*bound.program, *bound.layout, bases, streams_,
                                                    libraries_, options,
                                                    concurrent_ ? &*concurrent_ : nullptr));
      if (!looks) made.back()->ReadInputs(inputs_);
    }
  }
  parts_.code += Grown();
  {
    // Pins before kernels are timed below: nothing else may keep the processor or the driver busy
    // then.
    const Stage stage("pinning host memory");
    host_arena_.Await();
  }
  parts_.arena += Grown();
  LoadStores();
  DistinctCalls prepared, loaded;  // most programs have the same calls for every block
  for (const auto& executor : made) {
    FillScratch(programs);
    {
      const Stage stage("choosing algorithms");
      executor->Prepare(prepared);
    }
    // Clears the arena: on random numbers, which no model would have, a loss may take a slow path
    // for most tokens.
    Clear(arena_.data(), arena_.bytes());
    {
      const Stage stage("loading kernels");
      executor->Load(loaded);
    }
    // The measured memory of the handles is that of the complete card, which other processes may
    // change meanwhile.
    const int64_t grown = Grown();
    const int64_t of_handles = std::clamp<int64_t>(libraries_.handle_bytes() - parts_.libraries, 0,
                                                   std::max<int64_t>(grown, 0));
    parts_.libraries += of_handles;
    parts_.code += grown - of_handles;
    const Stage stage("recording graphs");
    executor->Record();
    parts_.graphs += Grown();
  }
  // A negative part means that the driver freed memory while the part was measured. That memory is
  // subtracted from the context's part, since the driver held it at first.
  for (int64_t* part : {&parts_.code, &parts_.graphs}) {
    parts_.context += std::min<int64_t>(*part, 0);
    *part = std::max<int64_t>(*part, 0);
  }
  Clear(arena_.data(), arena_.bytes());
  // If only copies use the host's arena, it still holds zeros: loading makes no copies.
  if (options.poison || std::ranges::any_of(programs, [](const BoundProgram& bound) {
        return HasKernelOnHost(*bound.program);
      })) {
    Clear(host_arena_.data(), host_arena_.bytes());
  }
  std::vector<std::unique_ptr<Executor>> executors;
  for (auto& executor : made) executors.push_back(std::move(executor));
  return executors;
}

int64_t CudaMemory::Grown() {
  const int64_t before = measured_;
  measured_ = ProcessBytes();
  return measured_ - before;
}

std::byte* CudaMemory::Address(const MemoryRange& range) {
  if (range.offset < 0 || range.bytes < 0 || range.offset > bytes(range.place) - range.bytes) {
    throw InternalError("a range lies outside its arena");
  }
  if (range.place == graph::Place::kDevice) return arena_.data() + range.offset;
  host_arena_.Await();  // without executors, the memory may not be pinned yet
  return host_arena_.data() + range.offset;
}

void CudaMemory::Write(std::span<std::byte> to, const void* from) {
  if (inputs_.Write(to, from, upload_)) return;
  upload_.Write(to.data(), from, static_cast<int64_t>(to.size()), streams_.compute.get());
}

// Large inputs are then copied from these places, so the upload buffer shrinks to its minimum.
std::unique_ptr<InputMemory> CudaMemory::MakeInputMemory(int places, int64_t bytes) {
  inputs_.Join(streams_.compute.get());
  gpu::Check(cudaStreamSynchronize(streams_.compute.get()), "uploading");
  upload_.Hold(0);
  return std::make_unique<CudaInputMemory>(places, bytes, inputs_, streams_.compute.get());
}

void CudaMemory::Read(std::span<const std::byte> from, void* to) {
  inputs_.Join(streams_.compute.get());
  Enqueue(static_cast<std::byte*>(to), from, streams_.compute.get());
  gpu::Check(cudaStreamSynchronize(streams_.compute.get()), "reading from the GPU");
}

std::unique_ptr<Readback> CudaMemory::MakeReadback(std::vector<std::span<const std::byte>> ranges) {
  return std::make_unique<CudaReadback>(std::move(ranges), streams_.compute.get());
}

}  // namespace plimsoll::runtime
