// The device that programs run on: its memory, executors, and transfers to and from it. Code above
// it needn't know the kind of device, and this header includes none of CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/initial_draws.h"
#include "base/mesh.h"
#include "base/stripe.h"
#include "base/thread_pool.h"
#include "graph/dtype.h"
#include "graph/program.h"
#include "runtime/allocator_stats.h"
#include "runtime/device_kind.h"
#include "runtime/executor.h"
#include "runtime/input_memory.h"
#include "runtime/layout.h"
#include "runtime/ranks/rank_group.h"
#include "runtime/ranks/world.h"
#include "runtime/segments.h"
#include "runtime/stage_link.h"
#include "runtime/stored_parameter.h"
#include "runtime/tensor_memory.h"

namespace plimsoll::runtime {

// A range of bytes in one of the two arenas.
struct MemoryRange {
  graph::Place place = graph::Place::kDevice;
  int64_t offset = 0;
  int64_t bytes = 0;
};

// Copies some ranges of bytes to the host while the device goes on working.
class Readback {
 public:
  virtual ~Readback() = default;
  // Enqueues the copy: it holds the bytes as they are once all work enqueued so far is done.
  virtual void Start() = 0;
  // Waits for the copy that was started last. The ranges are in order, each aligned to 16 bytes
  // (Rounded). Valid until the next Start().
  virtual const std::byte* Wait() = 0;
  // The device's time from the copy of `earlier`, another one of this device, to this one. Both
  // have been waited for. Nothing where the device keeps no time.
  virtual std::optional<double> SecondsSince(const Readback& earlier) const = 0;

  static size_t Rounded(size_t bytes) { return (bytes + 15) / 16 * 16; }
};

// The memory of a device that this process holds, measured while its programs were prepared. In
// bytes; zeros on the CPU.
struct ProcessParts {
  int64_t context = 0;        // the driver's own, and streams
  int64_t communicators = 0;  // NCCL's buffers and kernels
  int64_t arena = 0;          // in whole pages of the driver
  int64_t code = 0;           // kernels, ours and the libraries'
  int64_t libraries = 0;      // their handles
  int64_t graphs = 0;         // recorded programs
};

// The memory that the programs of a step share: arenas of exactly the planned bytes, or, where it
// is not planned(), memory that is allocated while they run. All bytes are zero at first.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  int64_t bytes(graph::Place place) const {
    return place == graph::Place::kDevice ? arena_bytes_ : host_arena_bytes_;
  }

  struct BoundProgram {
    const graph::Program* program = nullptr;
    const Layout* layout = nullptr;
    // Runs concurrently with the programs that are run after it. They wait for it only before they
    // change state that it has not read yet (runtime/state_reads.h). At most one program does.
    bool concurrent = false;
  };
  // Makes the executors of all programs at once, before anything is written: kernels choose and
  // load here what they need, with the arenas as scratch. All bytes are zero afterwards. The
  // programs must outlive the executors. Throws InternalError when an op has no kernel on this
  // device, or a tensor lies outside its arena.
  virtual std::vector<std::unique_ptr<Executor>> MakeExecutors(
      std::span<const BoundProgram> programs, const ExecutorOptions& options) = 0;

  // The same on other memories, by program, which must outlive the executors. A layout then only
  // tells a program's tensors apart, and `concurrent` is ignored. Nothing is prepared here:
  // MakeExecutors of this device has seen these programs.
  virtual std::vector<std::unique_ptr<Executor>> MakeExecutorsOn(
      std::span<TensorMemory* const> memories, std::span<const BoundProgram> programs,
      const ExecutorOptions& options) = 0;

  // Whether the arenas are all that programs' tensors ever take.
  virtual bool planned() const { return true; }
  virtual AllocatorStats stats(graph::Place place) const {
    const int64_t all = bytes(place);
    return {.allocated = all,
            .reserved = all,
            .peak_allocated = all,
            .peak_reserved = all,
            .segments = 1};
  }
  // Called between two steps, before the step of that number.
  virtual void BeforeStep(int64_t /*step*/) {}

  // Transfers between runs: they happen after the runs enqueued before, and before those enqueued
  // after. Write returns when `from` may be reused, Read when the bytes have arrived.
  virtual void Write(std::span<std::byte> to, const void* from) = 0;
  virtual void Read(std::span<const std::byte> from, void* to) = 0;
  virtual std::unique_ptr<Readback> MakeReadback(
      std::vector<std::span<const std::byte>> ranges) = 0;
  void Write(const MemoryRange& to, const void* from) { Write(Bytes(to), from); }
  void Read(const MemoryRange& from, void* to) { Read(Bytes(from), to); }

  // Places for batches, each of that number of bytes, from which the device reads inputs; to be
  // destroyed before this memory. nullptr: the device has none, and inputs are handed in by Write.
  // UserError when the machine lacks that memory.
  virtual std::unique_ptr<InputMemory> MakeInputMemory(int /*places*/, int64_t /*bytes*/) {
    return nullptr;
  }

  // The time that Write has copied bytes on the host, in seconds: without waiting for the device.
  virtual double copy_seconds() const { return 0; }

  virtual ProcessParts process_parts() const { return {}; }

  // Where the device finds the range, from now on. Throws InternalError outside of its arena.
  virtual std::byte* Address(const MemoryRange& range) = 0;
  std::span<std::byte> Bytes(const MemoryRange& range) {
    return {Address(range), static_cast<size_t>(range.bytes)};
  }

 protected:
  DeviceMemory(int64_t arena_bytes, int64_t host_arena_bytes)
      : arena_bytes_(arena_bytes), host_arena_bytes_(host_arena_bytes) {}

 private:
  int64_t arena_bytes_;
  int64_t host_arena_bytes_;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;  // "NVIDIA H200", or the processor's

  // Threads for the host's own work; on the CPU also for the kernels.
  ThreadPool& pool() const { return pool_; }

  // Throws a UserError naming the bytes when the machine lacks memory. The device must outlive the
  // memory.
  virtual std::unique_ptr<DeviceMemory> Allocate(int64_t arena_bytes, int64_t host_arena_bytes) = 0;

  // More memory at that place, while programs run; the device must outlive it.
  virtual std::unique_ptr<SegmentSource> MakeSegments(graph::Place place) = 0;

  // Number of steps that the host may be ahead of the device: 0 if Run() returns when all is done.
  virtual int steps_ahead() const = 0;

  // A communicator between the devices of an axis's ranks, all of which call, before memory is
  // allocated. It must outlive that memory. `channels`: the most that NCCL may use; 0: its own
  // choice.
  virtual std::unique_ptr<ops::Communicator> MakeCommunicator(RankGroup& ranks,
                                                              const MeshAxis& axis,
                                                              int channels) = 0;

  // The same between the devices of neighbouring stages (runtime/ranks/rank_group.h).
  virtual std::unique_ptr<StageLink> MakeStageLink(RankGroup& stages, std::vector<int64_t> ranks,
                                                   int channels) = 0;

  // Fill elements of a parameter in this device's arenas. Element i becomes draw from.Number(i), or
  // value from.Number(i). On a GPU they happen in order with the runs and transfers of arenas.
  //
  // May be called by several threads at a time, for other elements. Store returns when `values` may
  // be reused; but where they lie in memory of Staging(), the device reads them there itself, and
  // AwaitStores() returns when all that was enqueued before it is done.
  virtual void Store(const StoredParameter& to, const Stripe& from, const InitialDraws& draws) = 0;
  virtual void Store(const StoredParameter& to, const Stripe& from,
                     const TypedElements& values) = 0;
  // The same for bytes of any tensor, as they are.
  virtual void Store(std::byte* to, std::span<const std::byte> bytes) = 0;
  virtual void AwaitStores() = 0;
  // Host memory for values, in place of what an earlier call gave, which no Store() may still read.
  // 0 bytes give it back.
  virtual std::span<std::byte> Staging(int64_t bytes) = 0;

  // Waits for all enqueued work.
  virtual void Synchronize() = 0;

  // FLOP/s of dense matrix products of that type, according to the maker; 0 when not known. `tf32`:
  // of float32 operands that are rounded to TF32.
  virtual double peak_flops(graph::DType dtype, bool tf32) const = 0;

 protected:
  explicit Device(ThreadPool& pool) : pool_(pool) {}

 private:
  ThreadPool& pool_;
};

// The pool must outlive the device.
std::unique_ptr<Device> MakeCpuDevice(ThreadPool& pool);

}  // namespace plimsoll::runtime
