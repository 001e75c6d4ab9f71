// The record in a snapshot of the run that wrote it, besides the tensors; and the check whether
// another run may continue from it.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/dropout_draws.h"
#include "base/mesh.h"
#include "models/dropout_rates.h"
#include "models/model.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The state of the evaluations so far.
struct EvaluationState {
  int64_t last = -1;              // steps before the last evaluation; -1: none
  std::string monitor = "loss";   // the metric that decides the best evaluation
  bool larger_is_better = false;  // of it
  double best = std::numeric_limits<double>::infinity();
  int64_t best_step = -1;    // steps before the best; -1: none was a number
  int64_t without_gain = 0;  // evaluations since the best one
};

inline constexpr float kNoLossLimit = std::numeric_limits<float>::max();

// The history of an objective's losses that limits the following losses.
struct LossHistory {
  // The losses of good steps, the newest last; empty unless spikes are looked for.
  std::vector<float> losses = {};
  // The limits for the losses of the next two steps, by step % 2.
  std::array<float, 2> limits = {kNoLossLimit, kNoLossLimit};
};

// What became of the steps of a run so far.
struct StepCounts {
  int64_t updates = 0;
  int64_t overflows = 0;        // updates that loss scaling skipped
  int64_t spikes = 0;           // updates that divergence.action: skip skipped
  int64_t without_targets = 0;  // steps in which no target counts
  int64_t steps() const { return updates + overflows + spikes + without_targets; }
};

// The history that divergence checks need (trainer/divergence.h).
struct DivergenceState {
  std::vector<LossHistory> objectives = {{}};
  double lr_factor = 1;   // of the learning rate
  int64_t rollbacks = 0;  // so far
  StepCounts counts = {};
};

struct RunRecord {
  std::map<std::string, std::string> config;  // resolved: the keys that apply, as in a file
  std::map<std::string, std::string> model;   // its shape: "model.layers", …
  std::vector<std::string> class_names = {};  // models::Model::class_names()
  std::string plan;                           // fingerprint of programs and arenas
  Mesh mesh = {};
  int64_t zero = 0;
  int64_t train_tokens = 0;                 // of the data
  std::vector<int64_t> source_tokens = {};  // of each source of data.train
  // data::Source::checksums() of the data; empty: an earlier version wrote the snapshot.
  std::vector<std::string> source_checksums = {};
  int64_t sequences_per_step = 0;  // on all ranks
  int64_t sequences = 0;           // read so far: the next step's position in the data
  EvaluationState evaluation = {};
  DivergenceState divergence = {};
  int64_t dropout_map = kDropoutMap;  // by which the run drew its masks
  // models::WeightsChecksum of the model that adapters are trained over; empty: there are none, or
  // an earlier version wrote the snapshot.
  std::string base = {};
};

// The part that follows from the configuration alone: config, model, and the mesh. parallel.data
// must be known.
RunRecord RecordOf(const config::RunConfig& config, const models::Model& model);

// To JSON and back. UserError naming `where` when the text is no run record.
std::string ToJson(const RunRecord& record);
RunRecord ParseRunRecord(const std::string& json, const std::string& where);

// What a run that drops elements at these rates, and adapters at theirs, should say when it goes on
// from the snapshot at `path`; empty: nothing, since both draw the same masks.
std::string DropoutWarning(const RunRecord& saved, const models::DropoutRates& rates,
                           double adapters_rate, const std::string& path);

// Sets data.packing to concatenate, the default of earlier versions, where the run's file leaves it
// open and the snapshot was written so. False: nothing is changed.
bool KeepPacking(config::RunConfig& run, const RunRecord& saved);

// UserError that lists what contradicts the snapshot at `path`: settings that a resumed run cannot
// change (model, optimizer, type of weights, vocabulary), and settings that change its course,
// unless --set asks for them. Settings that only change how the work is done may differ.
void RequireContinues(const RunRecord& saved, const RunRecord& now, const config::RunConfig& config,
                      const std::string& path);

}  // namespace plimsoll::trainer
