// The device that programs run on: its memory, executors, and transfers to and from it. Code that
// uses this header needn't know the kind of device; the header does not include CUDA.
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

// A range of bytes in the device's or the host's arena.
struct MemoryRange {
  graph::Place place = graph::Place::kDevice;
  int64_t offset = 0;
  int64_t bytes = 0;
};

// Copies ranges of bytes to the host while the device continues to work.
class Readback {
 public:
  virtual ~Readback() = default;
  // Enqueues the copy. It holds the bytes as they are when all work enqueued so far is done.
  virtual void Start() = 0;
  // Waits for the copy that was started last and returns its bytes: the ranges in order, each
  // aligned to 16 bytes (Rounded). The bytes are valid until the next Start().
  virtual const std::byte* Wait() = 0;
  // The seconds between the copy of `earlier`, another readback of this device, and this copy, on
  // the device's clock. Await both copies first. nullopt if the device keeps no time.
  virtual std::optional<double> SecondsSince(const Readback& earlier) const = 0;

  static size_t Rounded(size_t bytes) { return (bytes + 15) / 16 * 16; }
};

// The bytes of device memory that this process holds, by use, measured while its programs were
// prepared. Zeros on the CPU.
struct ProcessParts {
  int64_t context = 0;        // the driver's context, and streams
  int64_t communicators = 0;  // NCCL's buffers and kernels
  int64_t arena = 0;          // the arena, rounded up to the driver's pages
  int64_t code = 0;           // code of kernels, our own and the libraries'
  int64_t libraries = 0;      // handles of libraries
  int64_t graphs = 0;         // recorded programs
};

// The memory that the programs of a step share: arenas of exactly the planned bytes, or memory that
// is allocated while programs run, if not planned(). All bytes are zero at first.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  int64_t bytes(graph::Place place) const {
    return place == graph::Place::kDevice ? arena_bytes_ : host_arena_bytes_;
  }

  struct BoundProgram {
    const graph::Program* program = nullptr;
    const Layout* layout = nullptr;
    // Whether the program runs concurrently with the programs that are run after it. These wait for
    // it only before they change state that it has not read yet (runtime/state_reads.h). At most
    // one program is concurrent.
    bool concurrent = false;
  };
  // Makes the executors of all programs at once, before anything is written: kernels choose and
  // load what they need here, with the arenas as scratch memory. All bytes are zero afterwards. The
  // programs must outlive the executors. Throws InternalError if an op has no kernel on this
  // device, or if a tensor lies outside its arena.
  virtual std::vector<std::unique_ptr<Executor>> MakeExecutors(
      std::span<const BoundProgram> programs, const ExecutorOptions& options) = 0;

  // Makes executors like MakeExecutors, but on other memories, one per program; the memories must
  // outlive the executors. Layouts only tell a program's tensors apart here, and `concurrent` is
  // ignored. Nothing is prepared: MakeExecutors of this device must have prepared these programs
  // before.
  virtual std::vector<std::unique_ptr<Executor>> MakeExecutorsOn(
      std::span<TensorMemory* const> memories, std::span<const BoundProgram> programs,
      const ExecutorOptions& options) = 0;

  // Whether the arenas hold all tensors of the programs.
  virtual bool planned() const { return true; }
  virtual AllocatorStats stats(graph::Place place) const {
    const int64_t all = bytes(place);
    return {.allocated = all,
            .reserved = all,
            .peak_allocated = all,
            .peak_reserved = all,
            .segments = 1};
  }
  // Called between two steps. `step` is the number of the step to come.
  virtual void BeforeStep(int64_t /*step*/) {}

  // Transfers between runs. Each happens after the runs enqueued before it, and before those
  // enqueued after it. Write returns when `from` may be reused, Read when the bytes are in `to`.
  virtual void Write(std::span<std::byte> to, const void* from) = 0;
  virtual void Read(std::span<const std::byte> from, void* to) = 0;
  virtual std::unique_ptr<Readback> MakeReadback(
      std::vector<std::span<const std::byte>> ranges) = 0;
  void Write(const MemoryRange& to, const void* from) { Write(Bytes(to), from); }
  void Read(const MemoryRange& from, void* to) { Read(Bytes(from), to); }

  // Buffers on the host for `places` batches of `bytes` each, from which the device reads inputs.
  // They must be destroyed before this memory. nullptr if the device has no such buffers; inputs
  // are then copied by Write. Throws a UserError if the machine lacks the memory.
  virtual std::unique_ptr<InputMemory> MakeInputMemory(int /*places*/, int64_t /*bytes*/) {
    return nullptr;
  }

  // Seconds that Write has spent copying bytes on the host, without waiting for the device.
  virtual double copy_seconds() const { return 0; }

  virtual ProcessParts process_parts() const { return {}; }

  // The device's address of the range, valid from now on. Throws InternalError if the range lies
  // outside its arena.
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

  // Threads for the host's own work, and on the CPU also for kernels.
  ThreadPool& pool() const { return pool_; }

  // Throws a UserError naming the bytes if the machine lacks memory. The device must outlive the
  // returned memory.
  virtual std::unique_ptr<DeviceMemory> Allocate(int64_t arena_bytes, int64_t host_arena_bytes) = 0;

  // A source of more memory at `place` while programs run. The device must outlive it.
  virtual std::unique_ptr<SegmentSource> MakeSegments(graph::Place place) = 0;

  // Number of steps that the host may be ahead of the device. 0: Run() returns when the run is
  // done.
  virtual int steps_ahead() const = 0;

  // A communicator between the devices of an axis's ranks. All these ranks call, before memory is
  // allocated. The communicator must outlive that memory. `channels`: the most channels that NCCL
  // may use; 0: NCCL's own choice.
  virtual std::unique_ptr<ops::Communicator> MakeCommunicator(RankGroup& ranks,
                                                              const MeshAxis& axis,
                                                              int channels) = 0;

  // A link between the devices of neighbouring stages (runtime/ranks/rank_group.h); see
  // MakeCommunicator.
  virtual std::unique_ptr<StageLink> MakeStageLink(RankGroup& stages, std::vector<int64_t> ranks,
                                                   int channels) = 0;

  // Fills elements of a parameter in this device's arenas. Element i becomes draw from.Number(i),
  // or value from.Number(i). On a GPU, stores happen in order with runs and with transfers of
  // arenas.
  //
  // Several threads may call at a time for different elements. Store returns when `values` may be
  // reused. If `values` is in memory of Staging(), the device reads it there later: it may be
  // reused once AwaitStores() has returned, which waits for everything enqueued before it.
  virtual void Store(const StoredParameter& to, const Stripe& from, const InitialDraws& draws) = 0;
  virtual void Store(const StoredParameter& to, const Stripe& from,
                     const TypedElements& values) = 0;
  // Stores bytes of any tensor unchanged; otherwise like the other Store functions.
  virtual void Store(std::byte* to, std::span<const std::byte> bytes) = 0;
  virtual void AwaitStores() = 0;
  // Host memory for values. It replaces the memory that an earlier call gave, which no Store() may
  // still read. 0 bytes free it.
  virtual std::span<std::byte> Staging(int64_t bytes) = 0;

  // Waits for all enqueued work.
  virtual void Synchronize() = 0;

  // Peak FLOP/s of dense matrix products of that type, as the maker states it; 0 if not known.
  // `tf32`: for float32 operands that are rounded to TF32.
  virtual double peak_flops(graph::DType dtype, bool tf32) const = 0;

 protected:
  explicit Device(ThreadPool& pool) : pool_(pool) {}

 private:
  ThreadPool& pool_;
};

// Makes the device of the CPU. The pool must outlive it.
std::unique_ptr<Device> MakeCpuDevice(ThreadPool& pool);

}  // namespace plimsoll::runtime
