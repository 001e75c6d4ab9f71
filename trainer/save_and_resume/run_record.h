// A snapshot's record of the run that wrote it, in addition to the tensors. Also checks whether a
// different run may continue from the snapshot.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/dropout_draws.h"
#include "base/mesh.h"
#include "data/volumes/volume_resampling.h"
#include "models/dropout_rates.h"
#include "models/model.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The state of the evaluations so far.
struct EvaluationState {
  int64_t last = -1;              // steps before the last evaluation; -1 means no evaluation yet
  std::string monitor = "loss";   // the metric that decides the best evaluation
  bool larger_is_better = false;  // whether a larger value of `monitor` is better
  double best = std::numeric_limits<double>::infinity();
  int64_t best_step = -1;    // steps before the best evaluation; -1 means no finite value yet
  int64_t without_gain = 0;  // number of evaluations since the best one
};

inline constexpr float kNoLossLimit = std::numeric_limits<float>::max();

// An objective's recent losses, from which limits for the next losses follow.
struct LossHistory {
  // The losses of good steps, from the oldest to the newest; empty unless the run checks for
  // spikes.
  std::vector<float> losses = {};
  // The limits for the losses of the next two steps, indexed by step % 2.
  std::array<float, 2> limits = {kNoLossLimit, kNoLossLimit};
};

// Counts of the run's steps so far, by their results.
struct StepCounts {
  int64_t updates = 0;
  int64_t overflows = 0;        // updates that loss scaling skipped
  int64_t spikes = 0;           // updates that `divergence.action: skip` skipped
  int64_t without_targets = 0;  // steps without targets
  int64_t steps() const { return updates + overflows + spikes + without_targets; }
};

// The history that divergence checks need (trainer/divergence.h).
struct DivergenceState {
  std::vector<LossHistory> objectives = {{}};
  double lr_factor = 1;   // factor of the learning rate
  int64_t rollbacks = 0;  // number of rollbacks so far
  StepCounts counts = {};
};

struct RunRecord {
  // Resolved configuration: the keys that apply, as in a run file.
  std::map<std::string, std::string> config;
  // Maps a key of the model's shape, such as "model.layers", to its value.
  std::map<std::string, std::string> model;
  std::vector<std::string> class_names = {};  // models::Model::class_names()
  std::string plan;                           // fingerprint of the programs and arenas
  Mesh mesh = {};
  int64_t zero = 0;
  int64_t train_tokens = 0;                 // number of tokens in the data
  std::vector<int64_t> source_tokens = {};  // for each source of data.train, its number of tokens
  // data::Source::checksums() of the data; empty in snapshots of earlier versions.
  std::vector<std::string> source_checksums = {};
  int64_t sequences_per_step = 0;  // number of sequences in a step, on all ranks
  int64_t sequences = 0;           // number of sequences read so far; the next step begins there
  EvaluationState evaluation = {};
  DivergenceState divergence = {};
  int64_t dropout_map = kDropoutMap;  // version of the random map for dropout masks
  int64_t label_resampling = data::kLabelResampling;
  // models::WeightsChecksum of the adapters' base model; empty without adapters, and in snapshots
  // of earlier versions.
  std::string base = {};
};

// The part of a record that depends on the configuration alone: config, model, and mesh.
// parallel.data must be known.
RunRecord RecordOf(const config::RunConfig& config, const models::Model& model);

// Converts a record to JSON and back. Throws a UserError that names `where` if the text is not a
// run record.
std::string ToJson(const RunRecord& record);
RunRecord ParseRunRecord(const std::string& json, const std::string& where);

// A warning if a run that resumes from the snapshot at `path`, with these dropout rates of model
// and adapters, draws dropout masks different from those of the saved run; otherwise empty.
std::string DropoutWarning(const RunRecord& saved, const models::DropoutRates& rates,
                           double adapters_rate, const std::string& path);

// A warning if a run that resumes from the snapshot at `path` resamples volumes, and if its labels
// differ from those of the saved run; otherwise empty.
std::string LabelsWarning(const RunRecord& saved, const std::string& path);

// Throws a UserError that lists contradictions to the snapshot at `path`: settings that a resumed
// run cannot change (model, optimizer, type of weights, vocabulary), and settings that change the
// computed values, unless --set gives them. Settings that change only how the work is done may
// differ.
void RequireContinues(const RunRecord& saved, const RunRecord& now, const config::RunConfig& config,
                      const std::string& path);

}  // namespace plimsoll::trainer
