// The ranks of a training run: this rank's position in the mesh, its communicators, and the checks
// that all ranks agree before the first step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/mesh.h"
#include "memory/cost_model.h"
#include "runtime/device.h"
#include "runtime/device_kind.h"
#include "runtime/process_memory.h"
#include "runtime/ranks/mesh_ranks.h"
#include "runtime/ranks/world.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// The memory of the hosts that ranks share: what all ranks of one host take together must be there
// before any of them takes it.

// Of one rank.
struct HostShare {
  int64_t leader = 0;  // the first rank of its host (runtime::World::host_leader)
  std::string host;    // its name
  int64_t bytes = 0;   // that this rank will take of its host's memory
  runtime::AvailableMemoryBytes available = {};
};

// Why the shares of all ranks, in their order, don't fit: the first host, or control group of a
// host, that lacks memory, with its ranks and their sum. Empty when all fit. A single rank of a
// host has a check of its own (Session). On a GPU the memory is pinned and memory.host_budget
// bounds it, on the CPU it is the plan's.
std::string HostMemoryProblem(std::span<const HostShare> ranks, runtime::DeviceKind device);

// UserError with ExitCode::kBudgetNotMet on every rank when there is such a problem. All ranks
// call, before any of them allocates.
void RequireHostMemory(runtime::World& world, int64_t bytes, runtime::DeviceKind device,
                       const runtime::AvailableMemoryBytes& available);

// What all ranks must have in common before the first step. Each rank compiles its own programs,
// which may differ in local ops: what is recomputed, fused or copied, how much scratch memory there
// is.

// UserError on every rank, naming the first rank that differs, unless all pass the same text. All
// ranks call. `what`: "configurations".
void RequireSame(runtime::World& world, const std::string& text, const std::string& what);

// Lines that must be equal on all ranks, or on those of a pipeline's stage.
struct CommonLines {
  // The collectives (parallel/rank_calls.h), in the order of the programs: ranks that issue those
  // of several axes in different orders can wait for each other forever. On a GPU also the places
  // of their tensors and the size of the arena, which ranks register together.
  std::vector<std::string> collectives;
  // The carried tensors, with their types: together they make a snapshot.
  std::vector<std::string> carried;
};
CommonLines CommonLinesOf(const CompiledStep& compiled);

// Names the first line in which a rank differs from the first rank of its stage; empty: none.
std::string Disagreement(const CommonLines& first, const CommonLines& other, int64_t rank,
                         int64_t first_rank = 0);

// Throws a UserError on every rank that names the first line in which a rank differs from rank 0.
// All ranks call.
void RequireAgreement(runtime::World& world, const CompiledStep& compiled);

// Tells programs and their plans apart: a hash of their text and places, and the sizes of arenas.
std::string FingerprintOf(const CompiledStep& compiled);

// All ranks of the group call and run `action`. Returns on every rank the message of the UserError
// on the first rank where `action` throws one, with that rank's number when there are several
// ranks; empty when none throws.
std::string FirstProblem(runtime::RankGroup& ranks, FunctionRef<void()> action);

class Ranks {
 public:
  // All ranks call. InternalError unless the mesh has as many ranks as the world.
  Ranks(runtime::World& world, Mesh mesh) : world_(world), mesh_(world, std::move(mesh)) {}

  // Makes the communicators between the ranks' devices; the devices must outlive them. `channels`:
  // at most, of each communicator; 0: NCCL's choice.
  void Connect(runtime::Device& device, int64_t channels) {
    mesh_.Connect(device, static_cast<int>(channels));
  }

  int rank() const { return world_.rank(); }
  int size() const { return world_.size(); }
  bool first() const { return rank() == 0; }  // the one that prints and writes
  bool first_on_host() const { return world_.local_rank() == 0; }
  runtime::RankGroup& group() { return world_; }
  const Mesh& mesh() const { return mesh_.mesh(); }
  const MeshPosition& position() const { return mesh_.position(); }
  // The ranks that this rank shares an axis with; nullptr where it is alone.
  const runtime::AxisGroups& groups() const { return mesh_.groups(); }
  const ops::AxisCommunicators& communicators() const { return mesh_.communicators(); }
  // To the neighbouring stages; nullptr without stages.
  runtime::StageLink* stage_link() const { return mesh_.stage_link(); }

  void Barrier() { world_.Barrier(); }

  // As in runtime::RankGroup.
  std::string Broadcast(std::string_view text) { return world_.Broadcast(text); }
  std::vector<std::string> Gather(std::string_view text) { return world_.Gather(text); }

  // trainer::FirstProblem of all ranks.
  std::string FirstProblem(FunctionRef<void()> action) {
    return trainer::FirstProblem(world_, action);
  }

  // True on all ranks when `here` is true on any rank.
  bool Any(bool here);

  // UserError on every rank unless the programs of all ranks work together.
  void RequireAgreement(const CompiledStep& compiled) {
    trainer::RequireAgreement(world_, compiled);
  }

  // The model's FLOPs are those of all stages. All ranks call.
  void AddUpStages(CompiledStep& compiled);
  // The time of a step of all stages, by each rank's own rates. All ranks call.
  double PredictSeconds(const CompiledStep& compiled, const memory::CostModel& cost);

  // UserError on every rank unless the ranks' hosts have the memory for these plans.
  void RequireHostMemory(const CompiledStep& compiled);

  // See runtime::World.
  void Watch(double patience, std::function<std::string()> doing) {
    world_.Watch(patience, std::move(doing));
  }
  void Progress() { world_.Progress(); }
  void StopWatching() { world_.StopWatching(); }

 private:
  runtime::World& world_;
  runtime::MeshRanks mesh_;
};

}  // namespace plimsoll::trainer
