#include "runtime/cuda/cuda_device.h"

#include <fmt/format.h>

#include "base/stage.h"
#include "gpu/first_device.h"
#include "gpu/libraries.h"
#include "gpu/peak_rates.h"
#include "runtime/cuda/cuda_memory.h"
#include "runtime/cuda/cuda_stage_link.h"
#include "runtime/cuda/cuda_store.h"
#include "runtime/cuda/gpu_memory.h"
#include "runtime/ranks/cuda_communicator.h"

namespace plimsoll::runtime {
namespace {

struct CurrentDevice {
  CurrentDevice() {
    const Stage stage("GPU context");
    gpu::UseFirstDevice();
  }
};

// Connects the ranks. NCCL connects ranks and allocates buffers at the first call of each length
// for which it chooses another algorithm. After the calls here, no call of a program allocates
// memory.
void Connect(ops::Communicator& ranks, const MeshAxis& axis, cudaStream_t stream) {
  constexpr int64_t kShortest = 4096, kLongest = int64_t{64} << 20, kLongestMaxima = 256 << 10;
  const CudaBuffer buffer(CudaBuffer::Kind::kShared, kLongest, "memory to connect ranks");
  ranks.Register(buffer.data(), buffer.bytes());
  for (int64_t bytes = kShortest; bytes <= kLongest; bytes *= 4) {
    const int64_t part = bytes / ranks.size() / 256 * 256;
    ranks.AllReduce(buffer.data(), buffer.data(), bytes / 4, graph::DType::kFloat32,
                    ops::Reduction::kSum, stream);
    ranks.AllGather(buffer.data() + ranks.rank() * part, buffer.data(), part / 4,
                    graph::DType::kFloat32, stream);
    ranks.ReduceScatter(buffer.data(), buffer.data() + ranks.rank() * part, part / 4,
                        graph::DType::kFloat32, ops::Reduction::kSum, stream);
    // Connects for maxima, too: a loss whose vocabulary is split needs them.
    if (axis.reduces_maxima && bytes <= kLongestMaxima) {
      ranks.AllReduce(buffer.data(), buffer.data(), bytes / 4, graph::DType::kFloat32,
                      ops::Reduction::kMax, stream);
    }
  }
  gpu::Check(cudaStreamSynchronize(stream), "connecting ranks");
  ranks.Deregister(buffer.data());
}

// Segments as frameworks take them: each is one cudaMalloc or, on the host, one allocation of
// pinned memory. Returning a segment waits for all work of the GPU.
class CudaSegments : public SegmentSource {
 public:
  // Fill() is enqueued on the stream, which must outlive this object.
  CudaSegments(graph::Place place, cudaStream_t stream) : place_(place), stream_(stream) {}

  // Throws like gpu::Check on failures other than a lack of memory.
  uintptr_t Reserve(int64_t bytes) override {
    void* address = nullptr;
    const auto size = static_cast<size_t>(bytes);
    const cudaError_t status = place_ == graph::Place::kDevice
                                   ? cudaMalloc(&address, size)
                                   : cudaHostAlloc(&address, size, cudaHostAllocDefault);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // clears the error, which the next call would report
      return 0;
    }
    gpu::Check(status, "a segment of memory");
    return reinterpret_cast<uintptr_t>(address);
  }
  void Return(uintptr_t address, int64_t) override {
    void* const segment = reinterpret_cast<void*>(address);
    if (place_ == graph::Place::kDevice) {
      gpu::Check(cudaFree(segment), "cudaFree");
    } else {
      gpu::Check(cudaFreeHost(segment), "cudaFreeHost");
    }
  }
  void Fill(uintptr_t address, int64_t bytes, unsigned char value) override {
    if (bytes == 0) return;
    gpu::Check(cudaMemsetAsync(reinterpret_cast<void*>(address), value, static_cast<size_t>(bytes),
                               stream_),
               "cudaMemsetAsync");
  }

 private:
  graph::Place place_;
  cudaStream_t stream_;
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(ThreadPool& pool) : Device(pool), rates_(RatesOf(libraries_.properties())) {
    const Stage stage("cuBLAS");
    libraries_.cublas_lt();
  }

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override {
    const cudaDeviceProp& gpu = libraries_.properties();
    return NameByKernels(gpu.name, {gpu.major, gpu.minor}, libraries_.capability());
  }
  std::unique_ptr<DeviceMemory> Allocate(int64_t arena_bytes, int64_t host_arena_bytes) override {
    return std::make_unique<CudaMemory>(arena_bytes, host_arena_bytes, streams_, libraries_, meter_,
                                        communicators_, communicator_bytes_);
  }
  std::unique_ptr<ops::Communicator> MakeCommunicator(RankGroup& ranks, const MeshAxis& axis,
                                                      int channels) override {
    const int64_t before = ProcessBytes();
    // Gathers that overlap with kernels use copy engines, since later layers wait for the gathered
    // parameters.
    auto made = MakeCudaCommunicator(
        ranks, {.max_channels = channels, .copy_engines = axis.gathers_overlap, .name = axis.name});
    Connect(*made, axis, streams_.compute.get());
    communicator_bytes_ += ProcessBytes() - before;
    // Arenas of different stages differ in size, and cannot be registered together.
    if (!axis.stages) communicators_.push_back(made.get());
    return made;
  }
  std::unique_ptr<StageLink> MakeStageLink(RankGroup& stages, std::vector<int64_t> ranks,
                                           int channels) override {
    const int64_t before = ProcessBytes();
    auto made = MakeCudaStageLink(stages, std::move(ranks), channels, streams_.compute.get());
    communicator_bytes_ += ProcessBytes() - before;
    return made;
  }
  std::unique_ptr<SegmentSource> MakeSegments(graph::Place place) override {
    return std::make_unique<CudaSegments>(place, streams_.compute.get());
  }
  int steps_ahead() const override { return 1; }
  void Store(const StoredParameter& to, const Stripe& from, const InitialDraws& draws) override {
    store_.Store(to, from, draws);
  }
  void Store(const StoredParameter& to, const Stripe& from, const TypedElements& values) override {
    store_.Store(to, from, values);
  }
  void Store(std::byte* to, std::span<const std::byte> bytes) override { store_.Store(to, bytes); }
  void AwaitStores() override { store_.Await(); }
  std::span<std::byte> Staging(int64_t bytes) override { return store_.Staging(bytes); }
  void Synchronize() override {
    gpu::Check(cudaStreamSynchronize(streams_.compute.get()), "cudaStreamSynchronize");
  }
  double peak_flops(graph::DType dtype, bool tf32) const override {
    switch (dtype) {
      case graph::DType::kBFloat16:
      case graph::DType::kFloat16:
        return rates_.half;
      case graph::DType::kFloat8E4M3:
      case graph::DType::kFloat8E5M2:
        return rates_.fp8;
      case graph::DType::kFloat32:
        return tf32 ? rates_.tf32 : rates_.fp32;
      default:
        return 0;
    }
  }

 private:
  // Returns zeros if the rates are not known.
  static gpu::PeakRates RatesOf(const cudaDeviceProp& gpu) {
    const gpu::PeakRates* const known = gpu::FindPeakRates(gpu.name);
    return known != nullptr ? *known : gpu::PeakRates{};
  }
  int64_t ProcessBytes() const { return meter_ ? meter_->MeasureProcess().bytes : 0; }

  // Before the context, whose memory it measures.
  std::optional<GpuMeter> meter_ = GpuMeter::Find();
  CurrentDevice current_;  // before all members that need a context
  gpu::Libraries libraries_;
  CudaStreams streams_;
  CudaStore store_{streams_.compute.get()};
  gpu::PeakRates rates_;
  std::vector<ops::Communicator*> communicators_;
  int64_t communicator_bytes_ = 0;
};

}  // namespace

bool BuiltWithCuda() { return true; }

bool CudaVisible() {
  int devices = 0;
  const bool visible = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  cudaGetLastError();  // clears the error: finding no GPU is not an error here
  return visible;
}

std::unique_ptr<Device> MakeCudaDevice(ThreadPool& pool) {
  return std::make_unique<CudaDevice>(pool);
}

}  // namespace plimsoll::runtime
