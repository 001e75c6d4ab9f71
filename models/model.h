// Models: forward graphs in float32 for one device, with tables that give the sharding of their
// parameters and the names of these in Hugging Face's files. A model does not deal with
// memory, gradients or ranks; passes do.
//
// B batch, T sequence, D width, H heads, G key-value heads, hd head width, F feed-forward width, V
// vocabulary, P positions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/settings.h"
#include "graph/builder.h"
#include "models/dropout_rates.h"
#include "models/forward_pass.h"
#include "models/sample_coupling.h"

namespace plimsoll::models {

enum class Head {
  kLoss,    // the loss of an objective, summed over all targets, times its "token_weight"
  kLogits,  // [B,V]: of one position in each row, or of classes
};

// The meaning of a classifier's logits: problem_type in transformers' config.json.
enum class ProblemType {
  kSingleLabel,  // each sample has one class: the softmax of the logits
  kMultiLabel,   // each sample has any number of classes: a sigmoid of each logit
  kRegression,   // a number, the only logit
};

// A training objective: a loss of the model, and the parameters that it trains.
struct Objective {
  // Prefix of its tensors' names ("critic.loss"); empty if it is the only objective.
  std::string name = "";
  std::vector<std::string> parameters = {"*"};  // patterns of names; objectives may not overlap
  int64_t updates = 1;                          // consecutive updates in each step
  std::string data = "";  // an earlier objective whose data is reused; empty: has its own data
};

// A row of a sharding table: the parameters that match `pattern` (* matches a layer's number) are
// split among the tensor-parallel ranks. A parameter in no row is replicated.
struct Sharding {
  enum Split {
    kRows,        // dimension 0: each rank computes some of the outputs (column-parallel linear)
    kColumns,     // dimension 1: each rank reads some of the inputs, and the results are summed
    kVocabulary,  // dimension 0, by token: embedding and head
  };
  std::string pattern;
  Split split;
  // Heights of the blocks that dimension 0 consists of. Each block is split by itself, so that a
  // rank gets complete heads of q, k and v, and matching halves of gate and up. Empty: one block.
  std::vector<int64_t> blocks = {};
};

// A tensor that Hugging Face stores, which holds a part of a parameter.
struct CheckpointTensor {
  std::string name;  // without the table's prefix
  int64_t rows = 0;  // rows of the parameter in this tensor; 0: all of them
};

// How a parameter (or state) is stored: it consists of its tensors, stacked by rows.
struct CheckpointEntry {
  std::string parameter;
  std::vector<CheckpointTensor> tensors;
  // The stored order of dimensions: dimension i of a tensor is the parameter's dimension order[i].
  // {1, 0}: transposed. Empty: the parameter's own order.
  std::vector<int> order = {};
  // Whether each element is a tensor of its own, an int64 scalar. If a file lacks it, it is 0.
  bool count = false;
  int leading_ones = 0;  // number of leading dimensions of size 1 in stored tensors
  // Whether stored tensors have a single dimension, with the elements in `order`.
  bool flat = false;
  // The parameter's shape to which `order` refers. Empty: its own shape.
  std::vector<int64_t> view = {};
  bool bare = false;  // whether names are stored without the prefix
  // Names, without prefix, of tensors that repeat the parameter, as a tied head does. A file may
  // have them with equal elements in addition to the parameter's own tensor, or instead of it.
  std::vector<std::string> copies = {};
};

// How checkpoints name and store a model's parameters. A * matches a number (of a layer, of a
// stage); the n-th * in a tensor's name is the n-th * in the parameter's name.
struct CheckpointTable {
  std::string prefix;  // prefix of the names; files may lack it
  std::vector<CheckpointEntry> entries;
  std::vector<std::string> ignored;  // names of constants that some versions store
  // Endings of names, and the endings that old files have instead.
  std::vector<std::pair<std::string, std::string>> old_ends = {};
  // Advice for the error when a copy differs from its parameter.
  std::string when_copies_differ = {};
};

// The row of the table for a parameter, and the numbers that each * matches.
struct CheckpointRow {
  const CheckpointEntry* entry;  // points into the table
  std::vector<int64_t> numbers;

  // The name of a tensor of the entry, without the prefix.
  std::string NameOf(const CheckpointTensor& tensor) const;
};
// Finds a parameter's row. Throws InternalError when no row matches.
CheckpointRow FindRow(const CheckpointTable& table, const std::string& parameter);

// The numbers that each * of `pattern` matches in `name`; nullopt if `name` does not match.
std::optional<std::vector<int64_t>> MatchNumbers(std::string_view pattern, std::string_view name);

// Sizes of a decoder.
struct TextSizes {
  int64_t vocab = 0;
  int64_t max_sequence = 0;  // the longest text that the model reads, in tokens
};

// A number that is computed from the sum of a metric.
struct DerivedMetric {
  std::string name;  // "f1"
  // Computes it from the metric's sum, row-major.
  double (*value)(std::span<const double> elements);
  bool larger_is_better = false;
};

// A quantity that a model reports about a batch in addition to its loss. A step or evaluation sums
// it over micro-batches and data ranks; a scalar is divided by `count` at the end. It has no
// gradient. A metric that is only declared outside of training is reported by evaluations only.
struct Metric {
  std::string name;  // "accuracy"
  graph::Value sum;  // the sum over the batch: f32 or i32, of any shape
  // f32[] or i32[]: number of summands. kNoTensor: the sum is already weighted, like the loss.
  graph::Value count = graph::kNoTensor;
  bool larger_is_better = false;  // for a scalar
  // For a matrix: what its rows and columns are ("label", "prediction"). Reports then draw it.
  std::string rows = "", columns = "";
  // Numbers that are computed from the sum over a complete evaluation.
  std::vector<DerivedMetric> derived = {};
};

class Model {
 public:
  struct Outputs {
    graph::Value loss = graph::kNoTensor;  // f32[], with Head::kLoss
    // f32[B,V], with Head::kLogits; f32[B,…,K] for K classes
    graph::Value logits = graph::kNoTensor;
    // Generated images, f32[B,H,W,C], within ±1; with Head::kLoss outside of training.
    graph::Value images = graph::kNoTensor;
    // The input of a classifier's last layer, f32[B,D], outside of training.
    graph::Value features = graph::kNoTensor;
    // The log-probabilities of a decoder's targets, f32[B,T], outside of training, if it learns
    // preferences.
    graph::Value log_probs = graph::kNoTensor;
    std::vector<Metric> metrics = {};      // with Head::kLoss
    std::vector<StateUpdate> states = {};  // in training: the updates by Layers::UpdateState
  };

  virtual ~Model() = default;
  // The name of the model's family (models/family.h).
  const std::string& family() const { return family_; }

  // All parameters, in the order of the forward pass; names are unique.
  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  int64_t parameter_count() const;
  const std::vector<StateInfo>& states() const { return states_; }
  const std::vector<SingularStates>& singular_states() const { return singular_states_; }
  // The inputs for a batch of one sample with one token, by name.
  const std::map<std::string, graph::TensorType>& inputs() const { return inputs_; }
  // The tensors in a checkpoint: the parameters, and the states that are equal on all ranks.
  std::vector<ParameterInfo> Stored() const;
  // Whether parts of the model share a parameter, as a tied head shares the token embedding: parts
  // are its blocks, what is before them and what is after them.
  bool shares_parameters() const { return shares_parameters_; }
  // Fills parameters(), states(), singular_states(), inputs() and shares_parameters() by building
  // the forward pass once. See WithParameters.
  void ListParameters();
  // The number of blocks "block.0", "block.1", …: one more than the highest number.
  int64_t block_count() const;
  // The model's name in messages: "llama model with 2 layers", "ResNet-20".
  virtual std::string title() const;

  // The objectives that a step trains, in the order of their updates.
  virtual std::vector<Objective> objectives() const { return {{}}; }

  // Appends the forward graph; with kLoss, up to the loss of `objective`. The graph declares the
  // parameters that it reads (Role::kParameter) and its inputs (Role::kInput). Other code relies on
  // the meaning of these inputs:
  //   tokens        i32[B,T]
  //   targets       i32[B,T]  (kLoss) negative: ignored
  //   token_weight  f32[]     (kLoss) 1 / number of targets with loss in the global batch; named
  //                           NAME.token_weight for an objective that has a name
  //   sample_weight f32[]     (kLoss) 1 / number of samples in the global batch (in an evaluation,
  //                           in all its batches); named likewise
  //   positions     i32[B,T]  (kLoss, ModelSpec::documents_apart) each token's position in its
  //                           document: 0 for a document's first token, then 1, 2, …, as
  //                           position_ids of transformers; a row's padding is a document
  //   reference     f32[B,T]  (kLoss, ModelSpec::preference) at each document's first token its
  //                           reference log-probability (ops/loss/preference_loss.h); token_weight
  //                           is then 1 / number of pairs in the global batch
  //   last          i32[B]    (kLogits) the position whose logits are wanted
  //   rng           i32[2]    (training with dropout) seed, micro-step
  Outputs Build(graph::Builder& builder, Batch batch, Head head, bool training,
                std::string_view objective = "") const;

  // The model's sharding table. Empty: every rank holds all parameters.
  virtual std::vector<Sharding> sharding() const { return {}; }
  // The names and layout of parameters in checkpoints. By default, parameters keep their own names.
  virtual CheckpointTable checkpoint_table() const;
  // What happens to a parameter when a checkpoint that training starts from has no tensor of the
  // right shape for it, because the run's settings ask for another shape.
  enum class Misfit {
    kRefused,
    kFresh,  // the parameter is initialised as in a new model, for example a head for other classes
    kFitted,  // Fit makes the parameter from the tensor, for example positions for more patches
    kFittedOrFresh,  // like kFitted; like kFresh if the checkpoint has no tensor of that name
  };
  // By default, the tables of new_tokens() are fitted, and other misfits are refused.
  virtual Misfit OnMisfit(const ParameterInfo& parameter) const;
  // Makes a parameter from a checkpoint's tensor of another shape, if OnMisfit allows it. Throws a
  // UserError when that is impossible. By default, only tables of new_tokens() can be fitted.
  virtual void Fit(const ParameterInfo& parameter, std::span<const int64_t> shape,
                   std::span<const float> stored, float* to) const;

  // The tokens that the model has in addition to those of the checkpoint that it starts from
  // (model.vocab). Their rows in `tables`, parameters by name, are initialised with the mean of the
  // checkpoint's rows.
  struct NewTokens {
    int64_t first = 0, end = 0;  // range of ids; empty if no tokens are new
    std::vector<std::string> tables = {};
  };
  const NewTokens& new_tokens() const { return new_tokens_; }
  // Call this before ListParameters. `stored`: the checkpoint's vocabulary. Names in `tables` that
  // are not parameters of the model are ignored.
  void set_new_tokens(int64_t stored, int64_t vocab, std::vector<std::string> tables);

  // The dropout probabilities of the forward pass.
  virtual DropoutRates dropout() const { return {}; }
  // The rates of the model's configuration, also if training draws no masks.
  virtual DropoutRates configured_dropout() const { return dropout(); }
  // Options of the preference loss. nullopt: the model does not learn preferences.
  virtual std::optional<ops::PreferenceOptions> preference() const { return std::nullopt; }
  // Sizes of a decoder. nullopt: the model is not a decoder.
  virtual std::optional<TextSizes> text_sizes() const { return std::nullopt; }
  // Throws a UserError when the model cannot read such a batch.
  virtual void CheckBatch(const Batch& /*batch*/) const {}
  // Which samples affect each other in training.
  virtual SampleCoupling sample_coupling() const { return SampleCoupling::Independent(); }
  // Exclusive upper bounds of integer inputs, by input ("labels"). Negative inputs are targets that
  // do not count.
  virtual std::map<std::string, int64_t> input_bounds() const { return {}; }
  // What the logits mean. nullopt: the model does not classify samples.
  virtual std::optional<ProblemType> problem_type() const { return std::nullopt; }
  // The number of classes, of samples or of their pixels; 0: the model has no classes.
  virtual int64_t classes() const { return 0; }
  // The names of the model's classes, by class number. They come from data or from a checkpoint's
  // config.json, and are written to the next checkpoint. Empty: the names are unknown.
  const std::vector<std::string>& class_names() const { return class_names_; }
  // Surplus names are dropped; classes without a name are called LABEL_N. Does nothing if the model
  // has no classes, or if all names are mere numbers.
  void set_class_names(std::vector<std::string> names);

  // A description that identifies the model, by key ("model.layers"): training resumes from a
  // snapshot only if the model has the same description.
  virtual std::map<std::string, std::string> description() const;
  // Whether sequence parallelism is possible: tensor-parallel ranks then divide the tokens between
  // split layers.
  virtual bool shares_tokens() const { return true; }
  // Sizes, by setting, that must be divisible by the number of tensor-parallel ranks.
  virtual std::vector<std::pair<std::string, int64_t>> shared_sizes() const { return {}; }
  // Writes the model's keys of config.json, beginning with model_type.
  virtual void WriteConfig(nlohmann::ordered_json& config) const;

 protected:
  // `settings` must describe the model, unless description() and WriteConfig() are overridden.
  explicit Model(std::string family, Settings settings = {})
      : family_(std::move(family)), settings_(std::move(settings)) {}

  const Settings& settings() const { return settings_; }

  // Builds the graph from the inputs to the logits, or to the loss of Layers::objective().
  virtual Outputs Forward(Layers& g, Head head) const = 0;

 private:
  std::string family_;
  Settings settings_;
  std::vector<ParameterInfo> parameters_;
  std::vector<StateInfo> states_;
  std::vector<SingularStates> singular_states_;
  std::map<std::string, graph::TensorType> inputs_;
  bool shares_parameters_ = false;
  std::vector<std::string> class_names_;
  NewTokens new_tokens_;
};

// Makes a model ready for use by listing its parameters.
template <typename M>
std::unique_ptr<M> WithParameters(std::unique_ptr<M> model) {
  model->ListParameters();
  return model;
}

// The name that transformers gives to a class without a name: "LABEL_3".
std::string NumberedClass(int64_t number);

// The model's text sizes; throws a UserError when the model is not a decoder.
TextSizes TextSizesOf(const Model& model);
// Whether the model generates images in evaluation (Outputs::images).
bool MakesImages(const Model& model);

}  // namespace plimsoll::models
