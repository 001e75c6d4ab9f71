// Overhead outside the arena: the device memory that a process takes in addition to the arena, in
// parts. The parts are known beforehand, so that a budget can bound the process's total and a plan
// for a GPU can be made without a GPU.
//
//   process = arena, in full pages + context + code + libraries + communicators + graphs + reserve
//
// On the CPU there is no such overhead: a budget bounds the arena. Sizes are in bytes.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/mesh.h"

namespace plimsoll::memory {

struct DeviceProfile {
  std::string device;        // "NVIDIA H200"; empty means the CPU
  int64_t memory_bytes = 0;  // memory available to programs
  int64_t page_bytes = 1;    // the driver allocates memory in pages of this size

  int64_t context_bytes = 0;        // the driver's memory: context, streams, stacks of kernels
  int64_t code_bytes = 0;           // the loaded kernels of this program
  int64_t libraries_bytes = 0;      // handles and kernels of cuBLASLt and cuDNN
  int64_t communicators_bytes = 0;  // NCCL's buffers and kernels for communication between ranks
  int64_t channels = 0;  // the number of channels of each communicator; 0 if NCCL chooses it or no
                         // communicator exists
  int64_t graphs_bytes = 0;   // recorded graphs of programs
  int64_t reserve_bytes = 0;  // temporary memory while algorithms are chosen for the first
                              // time
  bool measured = false;      // the values were measured on that device by this program;
                              // otherwise they are built in

  bool operator==(const DeviceProfile&) const = default;

  int64_t overhead_bytes() const {
    return context_bytes + code_bytes + libraries_bytes + communicators_bytes + graphs_bytes +
           reserve_bytes;
  }
  // The memory of a process with an arena of that size.
  int64_t ProcessBytes(int64_t arena_bytes) const {
    return RoundUp(arena_bytes, page_bytes) + overhead_bytes();
  }
  // The largest arena with which the process takes at most that many bytes; negative when the
  // overhead alone takes more.
  int64_t ArenaWithin(int64_t process_bytes) const {
    const int64_t left = process_bytes - overhead_bytes();
    return left < 0 ? left : left / page_bytes * page_bytes;
  }
};

// Values measured on an NVIDIA H200 with driver 580.159 (docs/measured/gpu_memory.md,
// docs/measured/parallelism.md); used for any other GPU until it is measured there. `name` and
// `memory_bytes` describe the GPU itself. `channels` is the number of channels of each axis's
// communicator; 0 means that NCCL chooses it.
DeviceProfile BuiltInGpuProfile(const std::string& name = "NVIDIA H200",
                                int64_t memory_bytes = int64_t{143155} << 20, const Mesh& mesh = {},
                                int64_t channels = 0);

// The overhead as text: "context 526 MiB, code 4.00 MiB, libraries 12.0 MiB, graphs 8.00 MiB,
// reserve 52.0 MiB", and communicators if there are several ranks.
std::string PartsText(const DeviceProfile& profile);

}  // namespace plimsoll::memory
