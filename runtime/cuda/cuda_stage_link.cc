#include "runtime/cuda/cuda_stage_link.h"

#include <algorithm>
#include <string>
#include <utility>

#include "gpu/check.h"
#include "graph/dtype.h"
#include "ops/collectives/communicator.h"
#include "runtime/cuda/cuda_handles.h"
#include "runtime/ranks/cuda_communicator.h"

namespace plimsoll::runtime {
namespace {

// One direction's stream and communicator. No arena is registered with it: arenas of different
// stages differ in size.
class Lane {
 public:
  Lane(RankGroup& stages, int channels, std::string name)
      : ranks_(MakeCudaCommunicator(
            stages, {.max_channels = channels, .shareable = false, .name = std::move(name)})) {}

  cudaStream_t stream() const { return stream_.get(); }

  void Send(std::span<const std::byte> bytes, int to) {
    ranks_->Send(bytes.data(), std::ssize(bytes), graph::DType::kUInt8, to, stream());
  }
  void Receive(std::span<std::byte> bytes, int from) {
    ranks_->Receive(bytes.data(), std::ssize(bytes), graph::DType::kUInt8, from, stream());
  }

  // Connects two ranks in advance: NCCL connects ranks and allocates buffers at the first message
  // of each range of lengths.
  void Connect(int from, int to) {
    constexpr size_t kShortest = 64, kLongest = size_t{64} << 20;
    const CudaBuffer buffer(CudaBuffer::Kind::kDevice, kLongest, "memory to connect stages");
    for (size_t bytes = kShortest; bytes <= kLongest; bytes *= 16) {
      const std::span<std::byte> message(buffer.data(), bytes);
      if (from >= 0 && from < ranks_->size()) Receive(message, from);
      if (to >= 0 && to < ranks_->size()) Send(message, to);
    }
    gpu::Check(cudaStreamSynchronize(stream()), "connecting stages");
  }

 private:
  // The stream has high priority, like those of collectives: otherwise a message would wait until a
  // kernel leaves it free multiprocessors.
  CudaStream stream_{CudaStream::Priority::kHighest};
  std::unique_ptr<ops::Communicator> ranks_;
};

class CudaStageLink : public StageLink {
 public:
  CudaStageLink(RankGroup& stages, std::vector<int64_t> ranks, int channels, cudaStream_t compute)
      : StageLink(stages.rank(), std::move(ranks)),
        compute_(compute),
        down_(stages, channels, "pipeline down"),
        up_(stages, channels, "pipeline up"),
        passed_(slots()) {
    const int before = stages.rank() - 1, next = stages.rank() + 1;
    down_.Connect(before, next);
    up_.Connect(next, before);
  }

 private:
  Lane& LaneOf(const Transfer& transfer) {
    return transfer.message.direction == LinkDirection::kDown ? down_ : up_;
  }

  // Enqueues a message after all runs enqueued so far. The message so begins after the runs that
  // write the sent bytes, or that read the slot's previous bytes.
  template <typename Call>
  void Enqueue(const Transfer& transfer, const Call& call) {
    Lane& lane = LaneOf(transfer);
    ran_.Record(compute_);
    ran_.MakeWait(lane.stream());
    call(lane);
    passed_.At(transfer).Record(lane.stream());
  }

  void DoStartSend(const Transfer& transfer, std::span<const std::byte> bytes) override {
    Enqueue(transfer, [&](Lane& lane) { lane.Send(bytes, PeerOf(transfer)); });
  }
  void DoStartReceive(const Transfer& transfer, std::span<std::byte> bytes) override {
    Enqueue(transfer, [&](Lane& lane) { lane.Receive(bytes, PeerOf(transfer)); });
  }
  void DoAwait(const Transfer& transfer) override { passed_.At(transfer).MakeWait(compute_); }

  cudaStream_t compute_;
  CudaEvent ran_;
  Lane down_, up_;
  PerSlot<CudaEvent> passed_;
};

}  // namespace

std::unique_ptr<StageLink> MakeCudaStageLink(RankGroup& stages, std::vector<int64_t> ranks,
                                             int channels, cudaStream_t compute) {
  return std::make_unique<CudaStageLink>(stages, std::move(ranks), LinkChannels(channels), compute);
}

}  // namespace plimsoll::runtime
