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

// Checks the memory of hosts that several ranks share. All the memory that a host's ranks will take
// together must be available before any rank takes its share.

// The memory that one rank takes from its host.
struct HostShare {
  int64_t leader = 0;  // the first rank of its host (runtime::World::host_leader)
  std::string host;    // the host's name
  int64_t bytes = 0;   // the bytes that this rank will take
  runtime::AvailableMemoryBytes available = {};
};

// Why the shares of all ranks, ordered by rank, don't fit. The text names the first host, or
// control group of a host, that lacks memory, with its ranks and the sum of their shares. Empty if
// all shares fit. A host with a single rank is checked elsewhere (Session). On a GPU the shares are
// pinned memory, bounded by memory.host_budget; on the CPU they are the plan's memory.
std::string HostMemoryProblem(std::span<const HostShare> ranks, runtime::DeviceKind device);

// Throws a UserError with ExitCode::kBudgetNotMet on every rank if HostMemoryProblem finds a
// problem. All ranks call this before any of them allocates.
void RequireHostMemory(runtime::World& world, int64_t bytes, runtime::DeviceKind device,
                       const runtime::AvailableMemoryBytes& available);

// The functions below check that ranks agree before the first step. Each rank compiles its own
// programs. Local ops may differ between ranks: which tensors are recomputed, fused or copied, and
// the available scratch memory.

// Throws a UserError on every rank unless all ranks pass the same text; the error names the first
// rank whose text differs. All ranks call this. `what` says what the text is: "configurations".
void RequireSame(runtime::World& world, const std::string& text, const std::string& what);

// Lines that must be equal on all ranks, or on all ranks of a pipeline's stage.
struct CommonLines {
  // The collectives (parallel/rank_calls.h), in the order of the programs. Ranks that issue the
  // collectives of several axes in different orders can wait for each other forever. On a GPU the
  // lines also contain the offsets of the collectives' tensors and the size of the arena, because
  // the ranks register these together.
  std::vector<std::string> collectives;
  // The carried tensors with their types; a snapshot needs all of these tensors from all ranks.
  std::vector<std::string> carried;
};
CommonLines CommonLinesOf(const CompiledStep& compiled);

// Names the first line in which `rank` differs from the first rank of its stage; empty if no line
// differs.
std::string Disagreement(const CommonLines& first, const CommonLines& other, int64_t rank,
                         int64_t first_rank = 0);

// Throws a UserError on every rank if the lines of a rank differ from those of the first rank of
// its stage; the error names the first such line. All ranks call this.
void RequireAgreement(runtime::World& world, const CompiledStep& compiled);

// Identifies programs and their plans: a hash of their text, their tensors' offsets and the sizes
// of arenas.
std::string FingerprintOf(const CompiledStep& compiled);

// Runs `action` on all ranks of the group; all ranks call this. Returns on every rank the message
// of the first rank on which `action` throws a UserError, with that rank's number if there are
// several ranks; empty if no rank throws.
std::string FirstProblem(runtime::RankGroup& ranks, FunctionRef<void()> action);

// Runs `action` on all ranks of the group; all ranks call this. If `action` throws a UserError on
// some ranks, throws the error of the first of these ranks on every rank, with its number unless
// that is 0. So all ranks clean up, and end with one exit code.
void RequireOnAll(runtime::RankGroup& ranks, FunctionRef<void()> action);

class Ranks {
 public:
  // All ranks call this. Throws an InternalError unless the mesh has as many ranks as the world.
  Ranks(runtime::World& world, Mesh mesh) : world_(world), mesh_(world, std::move(mesh)) {}

  // Creates the communicators between the ranks' devices; the devices must outlive them. `channels`
  // is the most channels of each communicator; 0 means NCCL's choice.
  void Connect(runtime::Device& device, int64_t channels) {
    mesh_.Connect(device, static_cast<int>(channels));
  }

  int rank() const { return world_.rank(); }
  int size() const { return world_.size(); }
  bool first() const { return rank() == 0; }  // the first rank prints and writes
  bool first_on_host() const { return world_.local_rank() == 0; }
  runtime::RankGroup& group() { return world_; }
  const Mesh& mesh() const { return mesh_.mesh(); }
  const MeshPosition& position() const { return mesh_.position(); }
  // The groups of ranks that share an axis with this rank; nullptr for an axis of one rank.
  const runtime::AxisGroups& groups() const { return mesh_.groups(); }
  const ops::AxisCommunicators& communicators() const { return mesh_.communicators(); }
  // The link to the neighbouring pipeline stages; nullptr without stages.
  runtime::StageLink* stage_link() const { return mesh_.stage_link(); }

  void Barrier() { world_.Barrier(); }

  // See runtime::RankGroup.
  std::string Broadcast(std::string_view text) { return world_.Broadcast(text); }
  std::vector<std::string> Gather(std::string_view text) { return world_.Gather(text); }

  // Calls trainer::FirstProblem with all ranks.
  std::string FirstProblem(FunctionRef<void()> action) {
    return trainer::FirstProblem(world_, action);
  }

  // trainer::RequireOnAll on all ranks of the world.
  void RequireOnAll(FunctionRef<void()> action) { trainer::RequireOnAll(world_, action); }

  // Whether `here` is true on any rank; the same result on all ranks.
  bool Any(bool here);

  // Throws a UserError on every rank unless the programs of all ranks work together.
  void RequireAgreement(const CompiledStep& compiled) {
    trainer::RequireAgreement(world_, compiled);
  }

  // Sets the model's FLOPs to the sum over all stages. All ranks call this.
  void AddUpStages(CompiledStep& compiled);
  // Predicts the time of a step of all stages with each rank's own rates. All ranks call this.
  double PredictSeconds(const CompiledStep& compiled, const memory::CostModel& cost);

  // Throws a UserError on every rank unless the ranks' hosts have enough memory for these plans.
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
