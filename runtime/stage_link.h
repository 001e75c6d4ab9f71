// Sends and receives between neighbouring stages of a pipeline, between the runs of programs.
// Activations are sent down, to the next stage, and their gradients up, to the stage before.
// Messages are read from and written to the caller's memory directly. These are the calls of a
// stage that has two neighbours:
//
//   StartReceive(down, i)    once nothing reads the slot's previous message any more
//   AwaitReceive(down, i)    forward pass of micro-batch i     StartSend(down, i)
//   AwaitReceive(up, i)      its backward pass                 StartSend(up, i)
//   AwaitSend(down, i)       before the slot is written again
//
// In each direction, a stage's sends match the receives of its neighbour in the order in which they
// were started. The directions are independent of each other. Nothing is buffered: a send may wait
// for its receive (trainer/step/stage_schedule.h proves that a step then completes).
//
// On the CPU, an await returns when the message is transferred. On a GPU, all calls enqueue and
// return at once: a send or a receive begins when the runs enqueued before it have ended, and the
// runs enqueued after an await wait for the message. There, a direction's sends and receives also
// wait for one another, in the order of the calls. No call may be captured in a CUDA graph.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::runtime {

// The number of communicators of a link on GPUs: one for each direction.
inline constexpr int kLinkCommunicators = 2;

// The most NCCL channels of each communicator of a link. `channels`: the limit for the
// communicators of axes; 0: NCCL's own choice. A link needs few: a message may take as long as a
// run, and takes multiprocessors from it.
constexpr int LinkChannels(int channels) {
  constexpr int kMost = 8;
  return channels > 0 && channels < kMost ? channels : kMost;
}

enum class LinkDirection : uint8_t {
  kDown,  // activations, to the next stage
  kUp,    // gradients, to the stage before
};

// Which message is sent. Neighbours may hold the same micro-batch in different slots.
struct StageMessage {
  LinkDirection direction = LinkDirection::kDown;
  int64_t slot = 0;  // slot of this stage; it holds one sent and one received message at a time
  int64_t micro_batch = 0;  // micro-batch, for MPI to check
};

// Calls may come from any thread, one at a time, and allocate nothing. They throw an InternalError
// with the micro-batch and the neighbour's rank: for a call that the stage or the slot doesn't
// allow, for a failure that MPI or NCCL reports, and with MPI for a message of another micro-batch
// or number of bytes.
class StageLink {
 public:
  // `ranks`: each stage's rank in the job.
  StageLink(int64_t stage, std::vector<int64_t> ranks);
  virtual ~StageLink() = default;
  StageLink(const StageLink&) = delete;
  StageLink& operator=(const StageLink&) = delete;

  int64_t stage() const { return stage_; }
  int64_t stages() const { return static_cast<int64_t>(ranks_.size()); }
  // A stage has at most this number of micro-batches in flight.
  int64_t slots() const { return stages(); }

  // The bytes may not change until AwaitSend().
  void StartSend(const StageMessage& message, std::span<const std::byte> bytes);
  // The bytes may not be read or written until AwaitReceive().
  void StartReceive(const StageMessage& message, std::span<std::byte> bytes);

  // Does nothing when the slot has no send in flight.
  void AwaitSend(LinkDirection direction, int64_t slot);
  void AwaitSends();  // awaits the sends of all slots
  void AwaitReceive(LinkDirection direction, int64_t slot);

 protected:
  enum class Way : uint8_t { kSend, kReceive };
  struct Transfer {
    Way way = Way::kSend;
    StageMessage message = {};
  };

  // One object for each slot, each direction, and send or receive: it describes the transfer in
  // flight.
  template <typename T>
  class PerSlot {
   public:
    explicit PerSlot(int64_t slots) {
      for (std::vector<T>& objects : objects_) objects = std::vector<T>(static_cast<size_t>(slots));
    }
    T& At(Way way, LinkDirection direction, int64_t slot) {
      return objects_[2 * static_cast<size_t>(way) + static_cast<size_t>(direction)].at(
          static_cast<size_t>(slot));
    }
    T& At(const Transfer& transfer) {
      return At(transfer.way, transfer.message.direction, transfer.message.slot);
    }

   private:
    std::array<std::vector<T>, 4> objects_;
  };

  // The stage at the other end of the transfer, which is a rank of the group of stages.
  int PeerOf(const Transfer& transfer) const;

 private:
  // Arguments are already checked. Error messages needn't name the transfer.
  virtual void DoStartSend(const Transfer& transfer, std::span<const std::byte> bytes) = 0;
  virtual void DoStartReceive(const Transfer& transfer, std::span<std::byte> bytes) = 0;
  virtual void DoAwait(const Transfer& transfer) = 0;

  struct Flight {
    bool started = false;
    int64_t micro_batch = 0;
  };

  void CheckSlot(int64_t slot) const;
  void Start(const Transfer& transfer);
  void Await(const Transfer& transfer);
  std::string Text(const Transfer& transfer) const;
  [[noreturn]] void Fail(const Transfer& transfer, std::string_view why) const;

  const int64_t stage_;
  const std::vector<int64_t> ranks_;
  PerSlot<Flight> flights_;
};

}  // namespace plimsoll::runtime
