// How long a node takes, from times measured on the device where there are any.
//
// A kernel's time depends on its op, the attributes that change its work and the types of its
// arguments: its signature. A node whose signature was measured takes what was measured. Any other
// is scaled from the nearest measured point of the same kind (op and dtypes) by the roofline
//   ideal = max(FLOPs / rate of the op, bytes / bandwidth of the op) + a constant per node,
// the greater of its two parts being what binds. With no point of its kind, and with no measurement
// at all, the ideal itself is the prediction, at built-in rates: deterministic, on any machine.
// (Roofline: Williams, Waterman, Patterson 2009.)
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/program.h"

namespace plimsoll::memory {

// "linear f32[2,8,64] f32[64,64] _ -> f32[2,8,64]". Attributes count as far as they change the
// work: words, booleans and integers but the random key, reals by whether they are zero.
std::string SignatureOf(const graph::OpCall& call);
// The op and the dtypes among its arguments: "linear f32".
std::string KindOf(const graph::OpCall& call);

// One measurement.
struct TimedCall {
  std::string signature;
  std::string kind;
  double ideal = 0;  // seconds, by CostModel::Ideal
  double seconds = 0;

  bool operator==(const TimedCall&) const = default;
};

class CostModel {
 public:
  // At the built-in rates for that many threads.
  explicit CostModel(int threads = 1) : threads_(threads) {}

  // Seconds by the built-in rates alone.
  double Ideal(const graph::OpCall& call) const;

  // What the call took: a later measurement of a signature replaces an earlier one.
  void Add(const TimedCall& timed);
  bool Knows(const graph::OpCall& call) const { return exact_.count(SignatureOf(call)) > 0; }
  bool measured() const { return !exact_.empty(); }

  double Seconds(const graph::OpCall& call) const;
  // Each node, views taking no time.
  std::vector<double> NodeSeconds(const graph::Program& program) const;
  // All nodes together.
  double ProgramSeconds(const graph::Program& program) const;

 private:
  int threads_;
  std::unordered_map<std::string, double> exact_;                   // by signature
  std::map<std::string, std::map<double, double>> points_by_kind_;  // ideal → seconds
};

}  // namespace plimsoll::memory
