// The ranks of a training run: where this one stands in the mesh, whom it talks to, and what all of
// them must agree on before the first step.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/mesh.h"
#include "runtime/device.h"
#include "runtime/mesh_ranks.h"
#include "runtime/world.h"
#include "trainer/settle/solve.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// UserError on every rank, naming the first that differs, unless all give the same text. All call.
// `what`: "configurations".
void RequireSame(runtime::World& world, const std::string& text, const std::string& what);

class Ranks {
 public:
  // All ranks call. InternalError unless the mesh has as many ranks as the world.
  Ranks(runtime::World& world, Mesh mesh) : world_(world), mesh_(world, std::move(mesh)) {}

  // Makes the communicators between the ranks' devices, which outlive them. `channels`: of each, at
  // most; 0: as many as NCCL likes.
  void Connect(runtime::Device& device, int64_t channels) {
    mesh_.Connect(device, static_cast<int>(channels));
  }

  int rank() const { return world_.rank(); }
  int size() const { return world_.size(); }
  bool first() const { return rank() == 0; }  // the one that prints and writes
  bool first_on_host() const { return world_.local_rank() == 0; }
  const Mesh& mesh() const { return mesh_.mesh(); }
  const MeshPosition& position() const { return mesh_.position(); }
  // The ranks that this one shares an axis with; nullptr where it is alone.
  const runtime::AxisGroups& groups() const { return mesh_.groups(); }
  const ops::AxisCommunicators& communicators() const { return mesh_.communicators(); }

  void Barrier() { world_.Barrier(); }

  // As of runtime::RankGroup.
  std::string Broadcast(std::string_view text) { return world_.Broadcast(text); }
  std::vector<std::string> Gather(std::string_view text) { return world_.Gather(text); }

  // All call. The message of the UserError that `action` ends with on the first rank where it does,
  // with that rank's number when there are several; on all ranks. Empty: on none.
  std::string FirstProblem(FunctionRef<void()> action);

  // Is it so on any rank?
  bool Any(bool here);

  void RequireSame(const std::string& text, const std::string& what) {
    trainer::RequireSame(world_, text, what);
  }

  // See runtime::World.
  void Watch(double patience, std::function<std::string()> doing) {
    world_.Watch(patience, std::move(doing));
  }
  void Progress() { world_.Progress(); }
  void StopWatching() { world_.StopWatching(); }

  // What rank 0 decides; other ranks' timings and free memory may differ and are not asked.
  SettledRun SettleOnFirst(const config::RunConfig& config, const models::Model& model);

 private:
  runtime::World& world_;
  runtime::MeshRanks mesh_;
};

// All that must be equal for collectives to match: the programs' text and their arenas.
std::string FingerprintOf(const CompiledStep& compiled);

}  // namespace plimsoll::trainer
