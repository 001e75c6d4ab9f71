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
#include "ops/axis.h"
#include "runtime/device.h"
#include "runtime/world.h"
#include "trainer/settle/solve.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// UserError on every rank, naming the first that differs, unless all give the same text. All call.
// `what`: "configurations".
void RequireSame(runtime::World& world, const std::string& text, const std::string& what);

// The mesh is data × tensor. Ranks of one tensor group, which share every layer's work, are
// neighbours: rank = data_rank · tensor_ranks + tensor_rank.
class Ranks {
 public:
  // tensor_ranks divides the world's size. All ranks call.
  Ranks(runtime::World& world, int64_t tensor_ranks);

  // Makes the communicators between the ranks' devices, which outlive them. `channels`: of each, at
  // most; 0: as many as NCCL likes.
  void Connect(runtime::Device& device, int64_t channels);

  int rank() const { return world_.rank(); }
  int size() const { return world_.size(); }
  bool first() const { return rank() == 0; }  // the one that prints and writes
  bool first_on_host() const { return world_.local_rank() == 0; }
  int64_t data_rank() const { return rank() / tensor_ranks_; }
  int64_t data_ranks() const { return size() / tensor_ranks_; }
  int64_t tensor_rank() const { return rank() % tensor_ranks_; }
  int64_t tensor_ranks() const { return tensor_ranks_; }
  // The ranks that this one shares an axis with; nullptr where it is alone.
  const runtime::AxisGroups& groups() const { return groups_; }
  const ops::AxisCommunicators& communicators() const { return communicators_; }

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
  int64_t tensor_ranks_;
  std::unique_ptr<runtime::RankGroup> data_group_, tensor_group_;
  runtime::AxisGroups groups_;
  std::unique_ptr<ops::Communicator> data_, tensor_;
  ops::AxisCommunicators communicators_;
};

// UserError (parallel.data or parallel.tensor) unless the mesh that the file asks for has as many
// ranks as were started; the message has the mpirun that would do. Otherwise parallel.data is what
// it comes to.
void CheckMesh(config::RunConfig& config, int64_t started);

// All that must be equal for collectives to match: the programs' text and their arenas.
std::string FingerprintOf(const CompiledStep& compiled);

}  // namespace plimsoll::trainer
