// Models: forward graphs in float32 for one device, with the tables that say how their parameters
// are sharded and what Hugging Face calls them. A model knows nothing of memory, gradients or
// ranks: passes see to those.
//
// B batch, T sequence, D width, H heads, G key-value heads, hd head width, F feed-forward width,
// V vocabulary, P positions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/settings.h"
#include "graph/builder.h"

namespace plimsoll::models {

class Layers;  // models/layers.h

// How a fresh parameter is filled.
struct Initializer {
  enum Kind { kNormal, kZeros, kOnes, kUniform };
  Kind kind = kZeros;
  double stddev = 0.0;  // kNormal
  double bound = 0.0;   // kUniform: within ±bound

  bool operator==(const Initializer&) const = default;
};

struct ParameterInfo {
  std::string name;  // "block.3.attn.qkv.weight"
  graph::Shape shape;
  Initializer init;

  bool operator==(const ParameterInfo&) const = default;
};

// A float32 tensor besides the parameters that a model carries from step to step: running
// statistics, say. Programs read it as the step before left it. What a micro-step makes of it waits
// (Layers::UpdateState) and takes its place together with the update of the parameters; with a
// step that is skipped it is dropped.
struct StateInfo {
  // What data ranks have of it; tensor ranks have it alike.
  enum OnRanks {
    kAveraged,  // alike: the mean of what each made of its part of the batch
    kAlike,     // alike, since each makes the same of it, and not of the batch
    kOwn,       // each its own, which no checkpoint holds
  };
  // Of kOwn, what a rank begins with where another number of data ranks goes on.
  enum OnOtherRanks { kMeanOfAll, kInitial };

  std::string name;  // "norm.running_mean"
  graph::Shape shape = {};
  float initial = 0;  // every element
  OnRanks on_ranks = kAveraged;
  OnOtherRanks on_other_ranks = kMeanOfAll;

  ParameterInfo info() const { return {name, shape, {}}; }
  bool operator==(const StateInfo&) const = default;
};

struct Batch {
  int64_t batch;     // B
  int64_t sequence;  // T
};

enum class Head {
  kLoss,    // the loss of an objective, summed over all targets, times its "token_weight"
  kLogits,  // [B,V], of one position per row
};

// A loss of a model, and the parameters that it trains.
struct Objective {
  std::string name = "";  // before the names of its tensors ("critic.loss"); empty: the only one
  std::vector<std::string> parameters = {"*"};  // patterns of names; no two objectives share one
  int64_t updates = 1;                          // in a step, one after the other
  std::string data = "";  // the earlier objective whose data it reads again; empty: data of its own
};

// One row of a sharding table: the parameters that match `pattern` (* stands for a layer's number)
// are split among the ranks of the tensor dimension; a parameter in no row is held by all.
struct Sharding {
  enum Split {
    kRows,        // dimension 0: each rank computes some of the outputs (column-parallel linear)
    kColumns,     // dimension 1: each rank sees some of the inputs, and the results are summed
    kVocabulary,  // dimension 0, by token: embedding and head
  };
  std::string pattern;
  Split split;
  // Dimension 0 is a stack of blocks this high, each of which is split by itself, so that a rank
  // gets whole heads of q, k and v, and matching halves of gate and up. Empty: one block.
  std::vector<int64_t> blocks = {};
};

// Part of a parameter as Hugging Face stores it.
struct CheckpointTensor {
  std::string name;  // without the prefix
  int64_t rows = 0;  // of the parameter, held by this tensor; 0: all of them
};

// A parameter is its tensors stacked by rows; each may be stored transposed ([in,out]).
struct CheckpointEntry {
  std::string parameter;
  std::vector<CheckpointTensor> tensors;
  bool transposed = false;
};

// * stands for a layer's number on both sides.
struct CheckpointTable {
  std::string prefix;  // before all names but the head's; may be missing in files that are read
  std::vector<CheckpointEntry> entries;
  std::vector<std::string> ignored;  // constants that some versions store
};

// Of a model that continues texts.
struct TextSizes {
  int64_t vocab = 0;
  int64_t max_sequence = 0;  // the longest text that it reads, in tokens
};

// What a model tells of a batch beside its loss. A step and an evaluation add it up, over their
// micro-batches and the ranks that share them, and divide what is scalar in the end. It has no
// gradient.
struct Metric {
  std::string name;                       // "accuracy"
  graph::Value sum;                       // over the batch: f32 or i32, of any shape
  graph::Value count = graph::kNoTensor;  // f32[] or i32[]: of what it is the sum. kNoTensor: not
                                          // divided, as the loss, which has its weight already
  bool larger_is_better = false;          // of a scalar
};

// What a training pass makes of a state.
struct StateUpdate {
  StateInfo state;
  graph::Value pending;  // what earlier micro-steps made of it (Role::kPending)
  graph::Value next;
};

class Model {
 public:
  struct Outputs {
    graph::Value loss = graph::kNoTensor;    // f32[], Head::kLoss
    graph::Value logits = graph::kNoTensor;  // f32[B,V], Head::kLogits
    std::vector<Metric> metrics = {};        // Head::kLoss
    std::vector<StateUpdate> states = {};    // of training: what Layers::UpdateState was told
  };

  virtual ~Model() = default;
  // That it was made by (models/family.h).
  const std::string& family() const { return family_; }

  // In the order of the forward pass; names are unique.
  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  int64_t parameter_count() const;
  const std::vector<StateInfo>& states() const { return states_; }
  // What a checkpoint holds: parameters, and states that ranks have alike.
  std::vector<ParameterInfo> Stored() const;
  // Fills parameters() and states(), by building the forward pass once. See WithParameters.
  void ListParameters();
  // Blocks that are numbered, "block.0", "block.1", …: one more than the highest number.
  int64_t block_count() const;

  // What a step trains, in the order of the updates.
  virtual std::vector<Objective> objectives() const { return {{}}; }

  // Appends the forward graph, of kLoss up to the loss of that objective. It declares the
  // parameters that it reads (Role::kParameter) and its inputs (Role::kInput), of which these have
  // a meaning for others:
  //   tokens        i32[B,T]
  //   targets       i32[B,T]  (kLoss) negative: ignored
  //   token_weight  f32[]     (kLoss) 1 / targets that count in the whole batch; of an objective
  //                           that has a name, NAME.token_weight
  //   last          i32[B]    (kLogits) the position whose logits are wanted
  //   rng           i32[2]    (training with dropout) seed, micro-step
  Outputs Build(graph::Builder& builder, Batch batch, Head head, bool training,
                std::string_view objective = "") const;

  // Empty: every rank holds all parameters.
  virtual std::vector<Sharding> sharding() const { return {}; }
  // Without a table of its own, parameters are stored under their own names.
  virtual CheckpointTable checkpoint_table() const;

  // Probability of dropout, where the forward pass has any.
  virtual double dropout() const { return 0; }
  // Nothing: it continues no texts.
  virtual std::optional<TextSizes> text_sizes() const { return std::nullopt; }
  // UserError when there are no such batches.
  virtual void CheckBatch(const Batch& /*batch*/) const {}
  // What makes it the model it is, by key ("model.layers"): nothing else can go on from its
  // snapshots.
  virtual std::map<std::string, std::string> description() const;
  // Sizes that tensor-parallel ranks share equally, by setting.
  virtual std::vector<std::pair<std::string, int64_t>> shared_sizes() const { return {}; }
  // Its members of config.json, from model_type on.
  virtual void WriteConfig(nlohmann::ordered_json& config) const;

 protected:
  // `settings` describe it, unless it overrides description() and WriteConfig().
  explicit Model(std::string family, Settings settings = {})
      : family_(std::move(family)), settings_(std::move(settings)) {}

  const Settings& settings() const { return settings_; }

  // From the inputs to the logits, or to the loss of Layers::objective().
  virtual Outputs Forward(Layers& g, Head head) const = 0;

 private:
  std::string family_;
  Settings settings_;
  std::vector<ParameterInfo> parameters_;
  std::vector<StateInfo> states_;
};

// A model that is about to be used: with its parameters listed.
template <typename M>
std::unique_ptr<M> WithParameters(std::unique_ptr<M> model) {
  model->ListParameters();
  return model;
}

// UserError where it continues no texts.
TextSizes TextSizesOf(const Model& model);

// `pattern` with its * (if any) replaced by a layer's number.
std::string ForLayer(std::string_view pattern, int64_t layer);

}  // namespace plimsoll::models
