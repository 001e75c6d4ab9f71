// The profile of the device that a run will use: the memory that its process takes in addition to
// the arena.
//
// On a GPU the profile is the one that earlier runs measured on that GPU, kept in
//   ${XDG_CACHE_HOME:-~/.cache}/plimsoll/gpu-NAME.json
// or else the built-in profile. A mesh of several ranks has its own folder, such as
// data-4-tensor-2-8-channels/, because its communicators take memory, too. Without a GPU, plans are
// made for an NVIDIA H200. The file is checked before it is used; a bad file is ignored with a
// warning and replaced.
#pragma once

#include <string>

#include "base/mesh.h"
#include "memory/device_profile.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// "process on NVIDIA H200: 8.60 GiB = arena 8.00 GiB + context 520 MiB, …"; says whether the parts
// are measured or built in.
std::string ProcessText(const memory::DeviceProfile& profile, int64_t arena_bytes);

// The profile of the device that `config` asks for, as far as this machine knows it.
memory::DeviceProfile ProfileFrom(const config::RunConfig& config);

// The fraction of a GPU's memory that is proposed as memory.budget; the driver keeps some memory.
inline constexpr double kGpuShare = 0.9;
// If a run has no memory.budget and is planned for a GPU, sets its budget to kGpuShare of the GPU's
// memory.
void TakeGpuAsBudget(config::RunConfig& config);

// The folder with the profiles of runs with this mesh and this number of channels. Empty means that
// profiles are not kept.
std::string ProfileFolder(const config::RunConfig& config);

// The GPU's profile from the file, or the built-in profile; for an NVIDIA H200 the larger of the
// two. `channels` is the number of channels of each communicator; 0 means NCCL's choice. If
// `folder` is empty, no file is read.
memory::DeviceProfile LoadProfile(const std::string& folder, const std::string& gpu,
                                  int64_t memory_bytes, const Mesh& mesh = {},
                                  int64_t channels = 0);

// Writes the measured profile unless the file holds a profile with more overhead: other runs may
// load fewer kernels than this one, and a budget must hold for each run.
void KeepProfile(const std::string& folder, const memory::DeviceProfile& measured);

}  // namespace plimsoll::trainer
