// The profile of the device that a run will use: what its process takes beside the arena.
//
// On a GPU it is what earlier runs measured there, kept in
//   ${XDG_CACHE_HOME:-~/.cache}/plimsoll/gpu-NAME.json
// (N-ranks-C-channels/gpu-NAME.json of N ranks, whose communicators take memory too) and otherwise
// what is built in. Without a GPU, plans are made for an NVIDIA H200. The file is checked before it
// is believed; a bad one is ignored with a warning and replaced.
#pragma once

#include <string>

#include "base/mesh.h"
#include "memory/device_profile.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// "process on NVIDIA H200: 8.60 GiB = arena 8.00 GiB + context 520 MiB, …"; says where the parts
// come from.
std::string ProcessText(const memory::DeviceProfile& profile, int64_t arena_bytes);

// Of the device that `config` asks for, as far as this machine knows it.
memory::DeviceProfile ProfileFrom(const config::RunConfig& config);

// Where the profiles of such runs are kept; empty: nowhere.
std::string ProfileFolder(const config::RunConfig& config);

// The file's profile of that GPU, or the built-in one; on an NVIDIA H200 whichever takes more.
// `channels`: of each communicator; 0: NCCL's choice.
// `folder` empty: nothing is kept.
memory::DeviceProfile LoadProfile(const std::string& folder, const std::string& gpu,
                                  int64_t memory_bytes, const Mesh& mesh = {},
                                  int64_t channels = 0);

// Keeps what was measured unless the file holds a profile that takes more: other runs load fewer
// kernels, and a budget must hold for each.
void KeepProfile(const std::string& folder, const memory::DeviceProfile& measured);

}  // namespace plimsoll::trainer
