// The ranks of a training run: this rank's position in the mesh, its communicators, and the checks
// that all ranks agree before the first step.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/mesh.h"
#include "runtime/device.h"
#include "runtime/ranks/mesh_ranks.h"
#include "runtime/ranks/world.h"
#include "trainer/settle/agreement.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

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

  // UserError on every rank unless the programs of all ranks work together (settle/agreement.h).
  void RequireAgreement(const CompiledStep& compiled) {
    trainer::RequireAgreement(world_, compiled);
  }

  // UserError on every rank unless the ranks' hosts have the memory for these plans
  // (settle/host_memory.h).
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
