// What a snapshot says of the run that wrote it, beside its tensors; and whether another run may go
// on from it.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/mesh.h"
#include "models/model.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The evaluations so far.
struct EvaluationState {
  int64_t last = -1;              // after so many steps; -1: none
  std::string monitor = "loss";   // the metric by which one is the best
  bool larger_is_better = false;  // of it
  double best = std::numeric_limits<double>::infinity();
  int64_t best_step = -1;    // -1: none was a number
  int64_t without_gain = 0;  // since the best one
};

inline constexpr float kNoLossLimit = std::numeric_limits<float>::max();

// What the losses of an objective so far have to say on those to come.
struct LossHistory {
  // Of good steps, the newest last; none unless spikes are looked for.
  std::vector<float> losses = {};
  // Of the losses of the next two steps, by step % 2.
  std::array<float, 2> limits = {kNoLossLimit, kNoLossLimit};
};

// What the rows so far have to say on those to come (trainer/divergence.h).
struct DivergenceState {
  std::vector<LossHistory> objectives = {{}};
  double lr_factor = 1;   // of the learning rate
  int64_t rollbacks = 0;  // so far
};

struct RunRecord {
  std::map<std::string, std::string> config;  // resolved: keys that mean something, as in a file
  std::map<std::string, std::string> model;   // its shape: "model.layers", …
  std::string plan;                           // fingerprint of programs and arenas
  Mesh mesh = {};
  int64_t zero = 0;
  int64_t train_tokens = 0;                 // of the data
  std::vector<int64_t> source_tokens = {};  // of each source of data.train
  int64_t sequences_per_step = 0;           // on all ranks
  int64_t sequences = 0;                    // read so far: where in the data the next step begins
  EvaluationState evaluation = {};
  DivergenceState divergence = {};
};

// What follows from the configuration alone: config, model, and the mesh. parallel.data is known.
RunRecord RecordOf(const config::RunConfig& config, const models::Model& model);

// JSON, and back. UserError naming `where` when it is none of these.
std::string ToJson(const RunRecord& record);
RunRecord ParseRunRecord(const std::string& json, const std::string& where);

// UserError that lists what contradicts the snapshot at `path`: what a run that goes on cannot
// change (another model, optimizer, type of weights, vocabulary), and what changes its course, if
// that isn't asked for by --set. What only changes how the work is done may differ.
void RequireContinues(const RunRecord& saved, const RunRecord& now, const config::RunConfig& config,
                      const std::string& path);

}  // namespace plimsoll::trainer
