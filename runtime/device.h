// The device that programs run on: its memory, executors over it, and the ways in and out of it.
// Nobody above needs to know which kind it is, and no header of CUDA stands here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mesh.h"
#include "base/thread_pool.h"
#include "graph/dtype.h"
#include "graph/program.h"
#include "runtime/device_kind.h"
#include "runtime/executor.h"
#include "runtime/layout.h"
#include "runtime/world.h"

namespace plimsoll::runtime {

// Bytes of one of the two arenas.
struct MemoryRange {
  graph::Place place = graph::Place::kDevice;
  int64_t offset = 0;
  int64_t bytes = 0;
};

// Some ranges, copied out for the host while the device goes on working.
class Readback {
 public:
  virtual ~Readback() = default;
  // Enqueues the copy: what the bytes are once all work enqueued so far is done.
  virtual void Start() = 0;
  // Waits for the copy that was started last. Ranges stand in their order, each from a multiple of
  // 16 on (Rounded). Valid until the next Start().
  virtual const std::byte* Wait() = 0;

  static int64_t Rounded(int64_t bytes) { return (bytes + 15) / 16 * 16; }
};

// What this process holds of a device, as measured while its programs were made ready. In bytes;
// zeros on the CPU.
struct ProcessParts {
  int64_t context = 0;        // the driver's own, and streams
  int64_t communicators = 0;  // NCCL's buffers and kernels
  int64_t arena = 0;          // in the driver's pages
  int64_t code = 0;           // kernels, ours and the libraries'
  int64_t libraries = 0;      // their handles
  int64_t graphs = 0;         // recorded programs
};

// The arenas that the programs of a step share: exactly the planned bytes, zero at first.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  int64_t bytes(graph::Place place) const {
    return place == graph::Place::kDevice ? arena_bytes_ : host_arena_bytes_;
  }

  struct BoundProgram {
    const graph::Program* program = nullptr;
    const Layout* layout = nullptr;
    // Runs beside the programs that are run after it: those wait for it only before they change
    // what it may read, the state that steps carry on (graph::OutlivesSteps).
    bool beside = false;
  };
  // Executors of all programs, made at once and before anything is written: what kernels choose and
  // load beforehand, they do here, with the arenas as their scratch. All bytes are zero afterwards.
  // The programs must outlive the executors. InternalError when an op has no kernel on this
  // device, or a tensor lies outside its arena.
  virtual std::vector<std::unique_ptr<Executor>> MakeExecutors(
      std::span<const BoundProgram> programs, const ExecutorOptions& options) = 0;

  // Between runs: ordered behind the runs enqueued before, and before those enqueued after. Write
  // returns when `from` may be reused, Read when the bytes are there.
  virtual void Write(const MemoryRange& to, const void* from) = 0;
  virtual void Read(const MemoryRange& from, void* to) = 0;
  virtual std::unique_ptr<Readback> MakeReadback(std::vector<MemoryRange> ranges) = 0;

  virtual ProcessParts process_parts() const { return {}; }

  // Where the host may touch the arena's bytes itself; nullptr where it may not (a GPU's own).
  virtual std::byte* HostAddress(graph::Place place) = 0;

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

  // Threads for the host's own work; on the CPU also the kernels'.
  ThreadPool& pool() const { return pool_; }

  // UserError, naming the bytes, when the machine lacks them. The device must outlive the memory.
  virtual std::unique_ptr<DeviceMemory> Allocate(int64_t arena_bytes, int64_t host_arena_bytes) = 0;

  // Steps that the host may be ahead of the device: 0 where Run() returns when all is done.
  virtual int steps_ahead() const = 0;

  // Between the devices of the ranks of an axis, all of which call, before memory is allocated. It
  // must outlive that memory. `channels`: of NCCL, at most; 0: as many as it likes.
  virtual std::unique_ptr<ops::Communicator> MakeCommunicator(RankGroup& ranks,
                                                              const MeshAxis& axis,
                                                              int channels) = 0;

  // Waits for all that was enqueued.
  virtual void Synchronize() = 0;

  // Floating-point operations a second of dense matrix products of that type, as the maker states
  // them; 0 when not known. `tf32`: of float32 operands that are rounded to it.
  virtual double peak_flops(graph::DType dtype, bool tf32) const = 0;

 protected:
  explicit Device(ThreadPool& pool) : pool_(pool) {}

 private:
  ThreadPool& pool_;
};

// The pool must outlive the device.
std::unique_ptr<Device> MakeCpuDevice(ThreadPool& pool);

}  // namespace plimsoll::runtime
