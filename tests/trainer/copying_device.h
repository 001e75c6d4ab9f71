// A device without a GPU that takes inputs as a GPU does: from places in its own host memory. What
// reads a place too early or too late finds other bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "runtime/device.h"

namespace plimsoll::trainer {

// What was enqueued, all in all.
struct Copies {
  std::atomic<int64_t> from_places = 0, from_host = 0;  // bytes, of inputs and of all else
  std::atomic<int64_t> awaited = 0;                     // places
};

class CopiedPlaces : public runtime::InputMemory {
 public:
  CopiedPlaces(int places, int64_t bytes, Copies& copies)
      : copies_(copies),
        memory_(static_cast<size_t>(places),
                std::vector<std::byte>(static_cast<size_t>(bytes), std::byte{0xff})) {}

  int places() const override { return static_cast<int>(memory_.size()); }
  std::span<std::byte> place(int place) override { return memory_[static_cast<size_t>(place)]; }
  void Write(int /*place*/, std::span<std::byte> to, const std::byte* from) override {
    std::memcpy(to.data(), from, to.size());
    copies_.from_places += std::ssize(to);
  }
  // What is still to be read is lost.
  void Await(int place) override {
    std::memset(memory_[static_cast<size_t>(place)].data(), 0xff,
                memory_[static_cast<size_t>(place)].size());
    ++copies_.awaited;
  }

 private:
  Copies& copies_;
  std::vector<std::vector<std::byte>> memory_;
};

class CopyingMemory : public runtime::DeviceMemory {
 public:
  CopyingMemory(std::unique_ptr<runtime::DeviceMemory> own, Copies& copies)
      : DeviceMemory(own->bytes(graph::Place::kDevice), own->bytes(graph::Place::kHost)),
        own_(std::move(own)),
        copies_(copies) {}

  std::vector<std::unique_ptr<runtime::Executor>> MakeExecutors(
      std::span<const BoundProgram> programs, const runtime::ExecutorOptions& options) override {
    return own_->MakeExecutors(programs, options);
  }
  std::vector<std::unique_ptr<runtime::Executor>> MakeExecutorsOn(
      std::span<runtime::TensorMemory* const> memories, std::span<const BoundProgram> programs,
      const runtime::ExecutorOptions& options) override {
    return own_->MakeExecutorsOn(memories, programs, options);
  }
  std::unique_ptr<runtime::InputMemory> MakeInputMemory(int places, int64_t bytes) override {
    return std::make_unique<CopiedPlaces>(places, bytes, copies_);
  }
  void Write(std::span<std::byte> to, const void* from) override {
    own_->Write(to, from);
    copies_.from_host += std::ssize(to);
  }
  void Read(std::span<const std::byte> from, void* to) override { own_->Read(from, to); }
  std::unique_ptr<runtime::Readback> MakeReadback(
      std::vector<std::span<const std::byte>> ranges) override {
    return own_->MakeReadback(std::move(ranges));
  }
  std::byte* Address(const runtime::MemoryRange& range) override { return own_->Address(range); }

 private:
  std::unique_ptr<runtime::DeviceMemory> own_;
  Copies& copies_;
};

// Says that it is a GPU; runs programs that were compiled for the CPU.
class CopyingDevice : public runtime::Device {
 public:
  explicit CopyingDevice(ThreadPool& pool) : Device(pool), cpu_(runtime::MakeCpuDevice(pool)) {}

  const Copies& copies() const { return copies_; }

  runtime::DeviceKind kind() const override { return runtime::DeviceKind::kCuda; }
  std::string name() const override { return cpu_->name(); }
  std::unique_ptr<runtime::DeviceMemory> Allocate(int64_t arena_bytes, int64_t host) override {
    return std::make_unique<CopyingMemory>(cpu_->Allocate(arena_bytes, host), copies_);
  }
  std::unique_ptr<runtime::SegmentSource> MakeSegments(graph::Place place) override {
    return cpu_->MakeSegments(place);
  }
  int steps_ahead() const override { return 1; }
  std::unique_ptr<ops::Communicator> MakeCommunicator(runtime::RankGroup& ranks,
                                                      const MeshAxis& axis, int channels) override {
    return cpu_->MakeCommunicator(ranks, axis, channels);
  }
  std::unique_ptr<runtime::StageLink> MakeStageLink(runtime::RankGroup& stages,
                                                    std::vector<int64_t> ranks,
                                                    int channels) override {
    return cpu_->MakeStageLink(stages, std::move(ranks), channels);
  }
  void Store(const runtime::StoredParameter& to, const Stripe& from,
             const InitialDraws& draws) override {
    cpu_->Store(to, from, draws);
  }
  void Store(const runtime::StoredParameter& to, const Stripe& from,
             const graph::TypedElements& values) override {
    cpu_->Store(to, from, values);
  }
  void Store(std::byte* to, std::span<const std::byte> bytes) override { cpu_->Store(to, bytes); }
  void AwaitStores() override { cpu_->AwaitStores(); }
  std::span<std::byte> Staging(int64_t bytes) override { return cpu_->Staging(bytes); }
  void Synchronize() override { cpu_->Synchronize(); }
  double peak_flops(graph::DType dtype, bool tf32) const override {
    return cpu_->peak_flops(dtype, tf32);
  }

 private:
  std::unique_ptr<runtime::Device> cpu_;
  Copies copies_;
};

}  // namespace plimsoll::trainer
