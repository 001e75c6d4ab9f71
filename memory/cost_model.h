// The cost model predicts the seconds of a node, from times measured on the device if any were
// measured.
//
// A kernel's time depends on its op, the attributes that change its work and the types of its
// arguments: together they are its signature. A node whose signature was measured takes the
// measured time. The time of any other node is scaled from the nearest measured point of the same
// kind (op and dtypes), in proportion to the times by the built-in rates (memory/device_rates.h).
// If no point of its kind was measured, the built-in rates are the prediction, which is the same on
// any machine.
//
// A program takes the sum of its nodes. If copies to and from the host overlap with ops: a
// copy_start takes no time; each direction carries one copy at a time, in the order of their
// starts, slower while the other direction is busy; and a copy_done takes as long as the ops must
// wait for it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/program.h"
#include "memory/device_rates.h"

namespace plimsoll::memory {

// The signature of a call, such as "linear f32[2,8,64] f32[64,64] _ -> f32[2,8,64]". It includes
// the attributes that change the work: words, booleans, integers except the random key, and whether
// reals are zero.
std::string SignatureOf(const graph::OpCall& call);
// The kind of a call: its op and the dtypes of its arguments, such as "linear f32".
std::string KindOf(const graph::OpCall& call);

// Whether the time of calls depends on other ranks, so that one rank cannot measure it.
inline bool IsOfRanks(const graph::OpDef& op) {
  return op.transfer == graph::Transfer::kCollectiveStart;
}

// One measurement.
struct TimedCall {
  std::string signature;
  std::string kind;
  double ideal = 0;  // seconds by CostModel::Ideal
  double seconds = 0;
  // The op's FLOPs and bytes (graph::Cost), to which rates are fitted.
  double flops = 0, bytes = 0;
};

class CostModel {
 public:
  explicit CostModel(const DeviceRates& rates) : rates_(rates) {}
  // The cost model of a CPU with that number of threads.
  explicit CostModel(int threads = 1) : rates_(DeviceRates::Cpu(threads)) {}

  const DeviceRates& rates() const { return rates_; }
  // Seconds by the built-in rates alone.
  double Ideal(const graph::OpCall& call) const { return rates_.Seconds(call); }

  // Adds a measured call; a later measurement of a signature replaces an earlier one.
  void Add(const TimedCall& timed);
  bool Knows(const graph::OpCall& call) const { return exact_.count(SignatureOf(call)) > 0; }
  bool measured() const { return !exact_.empty(); }
  // The date of the measurements, for messages: "on 2026-11-20". Empty if the date is unknown.
  const std::string& when() const { return when_; }
  void SetWhen(std::string when) { when_ = std::move(when); }
  // Sets the speed of copies that overlap with ops.
  void SetLink(const LinkRates& link) { rates_.set_link(link); }
  // Sets the mesh of ranks, for the time of collectives.
  void SetMesh(const Mesh& mesh) { rates_.set_mesh(mesh); }

  // The seconds of a call. Results are cached: the solver asks for the same calls in thousands of
  // programs, on several threads.
  double Seconds(const graph::OpCall& call) const;
  // The seconds of each node. A view takes none, unless it waits for a copy.
  std::vector<double> NodeSeconds(const graph::Program& program) const;
  // The seconds of all nodes.
  double ProgramSeconds(const graph::Program& program) const;

 private:
  class Asked;

  double Measured(const graph::OpCall& call) const;

  DeviceRates rates_;
  std::string when_;
  std::unordered_map<std::string, double> exact_;  // maps a signature to measured seconds
  std::map<std::string, std::map<double, double>>
      points_by_kind_;  // maps a kind to its points; a point maps ideal seconds to measured seconds
  std::shared_ptr<Asked> asked_;  // caches results of Seconds() for these measurements; nullptr
                                  // before the first result
};

}  // namespace plimsoll::memory
