// Finds the devices, cores and ranks that a run is for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/compute_capability.h"
#include "base/mesh.h"
#include "base/thread_pool.h"
#include "memory/plan.h"
#include "runtime/device.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The number of cores that this process may use, by its binding and by the limit of a container or
// of a batch job. Ranks of a host may share these cores (core_share.h).
int OwnCores();
// A pool of OwnCores() threads for planning; all code that plans at the same time shares the pool.
std::shared_ptr<ThreadPool> PlanningThreads();
// ", on 1 of the host's 32 cores: mpirun --bind-to none lets a rank use all" if mpirun, and nothing
// else, has bound this process to some of the host's cores; otherwise empty.
std::string BoundCoresNote();
// The number of compute threads: train.threads, or one for each of OwnCores().
int ThreadsFrom(const config::RunConfig& config);

// Throws a UserError if the text of a run file says `device: cuda` and this build has no CUDA.
// Commands that run on the device call this before they load the file: without CUDA, complaints
// about data or a budget would not help the user.
void RequireCudaBuild(const std::string& text, const std::string& name,
                      const std::vector<std::string>& sets);

// The device kind of a run, from `device:`. `auto` means a GPU if this build can use one.
runtime::DeviceKind DeviceFrom(const config::RunConfig& config);
// Whether the host's memory is the device's memory, so that placement on the host saves nothing:
// true on a CPU, unless debug.host_apart asks for a GPU's choices.
bool IsOneMemory(const config::RunConfig& config);
// The bytes of a plan that count against memory.budget, without the process's other memory.
int64_t ArenaBytes(const config::RunConfig& config, const memory::MemoryPlan& plan);
// Creates the run's device. The pool must outlive the device. Throws a UserError when this build or
// machine has no such device.
std::unique_ptr<runtime::Device> MakeDevice(const config::RunConfig& config, ThreadPool& pool);

// A GPU and its total memory.
struct Card {
  std::string name;
  int64_t memory_bytes;
};
// The GPU that `config` names, or else this machine's GPU, "NVIDIA H200 as 8.6" with debug.act_as;
// nullopt if this machine has no GPU.
std::optional<Card> CardFrom(const config::RunConfig& config);
// The name of the GPU for which `config` plans: the GPU that it names, or this machine's GPU, or
// else an NVIDIA H200. Empty on the CPU.
std::string GpuFrom(const config::RunConfig& config);
// Makes this process act as debug.act_as says. Whatever runs kernels calls it before.
void ActAsAsked(const config::RunConfig& config);
// The compute capability for which `config` plans: debug.act_as, or that of the same GPU. Throws a
// UserError if that GPU does not run kernels of debug.act_as.
ComputeCapability CapabilityFrom(const config::RunConfig& config);

// Matrix units that the run's kernels lack.
struct MissingUnits {
  std::string gpu;      // what lacks them: "the NVIDIA T4", "compute capability 7.5 (debug.act_as)"
  std::string way_out;  // "remove debug.act_as"; empty if the GPU itself lacks them
};
// nullopt if the run's kernels have the units that `has` asks for, or if it runs on the CPU.
std::optional<MissingUnits> FindMissingUnits(const config::RunConfig& config,
                                             bool (ComputeCapability::*has)() const);
// The 16-bit type that the run's matrix units multiply: bf16, or fp16 where they lack bf16.
config::Dtype HalfFrom(const config::RunConfig& config);
// Throws a UserError if the run has 8-bit linear layers and its GPU has no matrix units for them.
void RequireFp8Units(const config::RunConfig& config);

// The mesh's axes in their fixed order, each with the configuration's number of ranks; auto counts
// as one rank. All code that compiles, runs, writes or prints the axes follows this order.
Mesh MeshFrom(const config::RunConfig& config);

// The number of ranks in the mesh, even while the sizes of its axes are open.
int64_t RanksFrom(const config::RunConfig& config);

// A mesh with the same axes as MeshFrom, with one rank along each.
Mesh MeshOfOne();

// Calls config::RequireStarted for ranks that were started, or are planned for. Then sets
// parallel.ranks and, unless the mesh is open, the ranks of its axes, and fixes the values of keys
// without effect.
void CheckMesh(config::RunConfig& config, int64_t ranks);

}  // namespace plimsoll::trainer
