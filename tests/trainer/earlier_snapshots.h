// Snapshots that an earlier version wrote, in earlier_snapshots/, and what it made of them: see
// make_earlier_snapshots.py. This version has to make the same of them, to the bit.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

namespace plimsoll {

// One of the ways in which the earlier version continued from a snapshot.
struct Continuation {
  std::string snapshot;  // a folder in earlier_snapshots/
  size_t index = 0;

  std::string name() const { return snapshot + "_" + std::to_string(index); }
};
inline void PrintTo(const Continuation& continuation, std::ostream* stream) {
  *stream << continuation.name();
}

std::vector<std::string> EarlierSnapshots();
std::vector<Continuation> ContinuationsOnOneRank();
std::vector<Continuation> ContinuationsOnRanks();

// Continues from a copy of the snapshot. Expects the same numbers in metrics.jsonl, and the same
// tensors in the snapshot after the last step.
void ExpectSameContinuation(const Continuation& continuation);

// Expects that `plimsoll export` writes the same weights, and the same averages of them.
void ExpectSameExports(const std::string& snapshot);

}  // namespace plimsoll
