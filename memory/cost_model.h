// The cost model: how long a node takes, from times measured on the device if there are any.
//
// A kernel's time depends on its op, the attributes that change its work and the types of its
// arguments: its signature. A node whose signature was measured takes the measured time. The time
// of any other node is scaled from the nearest measured point of the same kind (op and dtypes), in
// proportion to the times by the built-in rates (memory/device_rates.h). With no point of its kind,
// the built-in rates are the prediction: deterministic, on any machine.
//
// A program takes the sum of its nodes. If copies to the host and back run beside the ops, a
// copy_start takes no time, each direction carries one copy at a time in the order of their starts,
// slower while the other direction is busy, and a copy_done takes as long as the ops must wait for
// it.
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

// "linear f32[2,8,64] f32[64,64] _ -> f32[2,8,64]". Includes the attributes that change the work:
// words, booleans, integers except the random key, and whether reals are zero.
std::string SignatureOf(const graph::OpCall& call);
// The op and the dtypes among its arguments: "linear f32".
std::string KindOf(const graph::OpCall& call);

// Whether calls take as long as ranks need together, which none can measure alone.
inline bool IsOfRanks(const graph::OpDef& op) {
  return op.transfer == graph::Transfer::kCollectiveStart;
}

// One measurement.
struct TimedCall {
  std::string signature;
  std::string kind;
  double ideal = 0;  // seconds, by CostModel::Ideal
  double seconds = 0;
  // Of the call by its op (graph::Cost), for those who fit rates to measurements.
  double flops = 0, bytes = 0;
};

class CostModel {
 public:
  explicit CostModel(const DeviceRates& rates) : rates_(rates) {}
  // The cost model of a CPU with that many threads.
  explicit CostModel(int threads = 1) : rates_(DeviceRates::Cpu(threads)) {}

  const DeviceRates& rates() const { return rates_; }
  // Seconds by the built-in rates alone.
  double Ideal(const graph::OpCall& call) const { return rates_.Seconds(call); }

  // Adds a measured call; a later measurement of a signature replaces an earlier one.
  void Add(const TimedCall& timed);
  bool Knows(const graph::OpCall& call) const { return exact_.count(SignatureOf(call)) > 0; }
  bool measured() const { return !exact_.empty(); }
  // When they were measured, for messages: "on 2026-11-20"; empty: it is not known.
  const std::string& when() const { return when_; }
  void SetWhen(std::string when) { when_ = std::move(when); }
  // The speed of copies that run beside the ops.
  void SetLink(const LinkRates& link) { rates_.set_link(link); }
  // The ranks whose collectives are timed.
  void SetMesh(const Mesh& mesh) { rates_.set_mesh(mesh); }

  // Remembers the calls that it was asked about: the solver asks about the same ones in thousands
  // of programs, on several threads.
  double Seconds(const graph::OpCall& call) const;
  // The seconds of each node; views take no time unless they wait for a copy.
  std::vector<double> NodeSeconds(const graph::Program& program) const;
  // All nodes together.
  double ProgramSeconds(const graph::Program& program) const;

 private:
  class Asked;

  double Measured(const graph::OpCall& call) const;

  DeviceRates rates_;
  std::string when_;
  std::unordered_map<std::string, double> exact_;                   // by signature
  std::map<std::string, std::map<double, double>> points_by_kind_;  // ideal → seconds
  std::shared_ptr<Asked> asked_;  // answers of these measurements; nullptr: none yet
};

}  // namespace plimsoll::memory
