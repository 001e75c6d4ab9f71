// Models: forward graphs in float32 for one device, with tables that say how their parameters are
// sharded and what Hugging Face calls them. A model knows nothing of memory, gradients or ranks;
// passes handle those.
//
// B batch, T sequence, D width, H heads, G key-value heads, hd head width, F feed-forward width,
// V vocabulary, P positions.
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
  kLogits,  // [B,V]: of one position per row, or of classes
};

// What a classifier's logits say of a sample: problem_type of transformers' config.json.
enum class ProblemType {
  kSingleLabel,  // the one class of the sample: the softmax of the logits
  kMultiLabel,   // for each class, whether the sample is of it: the sigmoid of the logits
  kRegression,   // a number: the only logit
};

// A loss of a model, and the parameters that it trains.
struct Objective {
  std::string name = "";  // prefix of its tensors' names ("critic.loss"); empty: the only one
  std::vector<std::string> parameters = {"*"};  // patterns of names; no two objectives share one
  int64_t updates = 1;                          // per step, one after the other
  std::string data = "";  // the earlier objective whose data it reuses; empty: its own data
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
  int64_t rows = 0;  // rows of the parameter in this tensor; 0: all of them
};

// A parameter (or state) consists of its tensors stacked by rows.
struct CheckpointEntry {
  std::string parameter;
  std::vector<CheckpointTensor> tensors;
  // How a tensor is stored: its dimension i is the parameter's dimension order[i]. {1, 0}:
  // transposed. Empty: as the parameter is.
  std::vector<int> order = {};
  // Each element is a tensor of its own, an int64 scalar. A file may lack it: it is 0 then.
  bool count = false;
  int leading_ones = 0;  // the tensors have so many dimensions of size 1 in front
  bool flat = false;     // the tensors have one dimension, for the elements in `order`
  // The parameter in other dimensions, to which `order` refers. Empty: its own.
  std::vector<int64_t> view = {};
  bool bare = false;  // the names never have the prefix
  // Bare names of tensors that repeat the parameter, as a tied head does. A file may have them
  // besides the parameter's own tensor, with equal elements, or in place of it.
  std::vector<std::string> copies = {};
};

// A * stands for a number (of a layer, of a stage); the n-th * of a tensor's name is the n-th of
// the parameter's.
struct CheckpointTable {
  std::string prefix;  // of the names; files that are read may lack it
  std::vector<CheckpointEntry> entries;
  std::vector<std::string> ignored;  // constants that some versions store
  // Ends of names, and what old files have in their place.
  std::vector<std::pair<std::string, std::string>> old_ends = {};
  // What to do where a copy differs from its parameter.
  std::string when_copies_differ = {};
};

// The row of a parameter, and the numbers that its *s stand for.
struct CheckpointRow {
  const CheckpointEntry* entry;  // of the table
  std::vector<int64_t> numbers;

  // The name of a tensor of the entry, without the prefix.
  std::string NameOf(const CheckpointTensor& tensor) const;
};
// Throws InternalError when the parameter is in no row.
CheckpointRow FindRow(const CheckpointTable& table, const std::string& parameter);

// The numbers that the *s of `pattern` stand for in `name`; nullopt: `name` is not of that form.
std::optional<std::vector<int64_t>> MatchNumbers(std::string_view pattern, std::string_view name);

// Sizes of a model that continues texts.
struct TextSizes {
  int64_t vocab = 0;
  int64_t max_sequence = 0;  // the longest text that it reads, in tokens
};

// A number that follows from the sum of a metric.
struct DerivedMetric {
  std::string name;                                   // "f1"
  double (*value)(std::span<const double> elements);  // of the metric's sum, row-major
  bool larger_is_better = false;
};

// What a model reports about a batch besides its loss. A step and an evaluation sum it over their
// micro-batches and the ranks that share them; a scalar is divided by `count` at the end. It has no
// gradient. One that is declared outside of training alone is a metric of evaluations only.
struct Metric {
  std::string name;                       // "accuracy"
  graph::Value sum;                       // over the batch: f32 or i32, of any shape
  graph::Value count = graph::kNoTensor;  // f32[] or i32[]: number of summands. kNoTensor: not
                                          // divided, as the loss, already weighted
  bool larger_is_better = false;          // of a scalar
  // Of a matrix: what its rows and columns stand for ("label", "prediction"). Reports draw it then.
  std::string rows = "", columns = "";
  // Numbers that follow from the sum over a whole evaluation.
  std::vector<DerivedMetric> derived = {};
};

class Model {
 public:
  struct Outputs {
    graph::Value loss = graph::kNoTensor;    // f32[], Head::kLoss
    graph::Value logits = graph::kNoTensor;  // f32[B,V], Head::kLogits; of classes f32[B,…,K]
    // f32[B,H,W,C], within ±1, Head::kLoss outside of training: images that the model makes.
    graph::Value images = graph::kNoTensor;
    // f32[B,D], outside of training: what a classifier's last layer makes its logits of.
    graph::Value features = graph::kNoTensor;
    // f32[B,T], outside of training: a decoder that learns preferences leaves the log-probabilities
    // of its targets.
    graph::Value log_probs = graph::kNoTensor;
    std::vector<Metric> metrics = {};      // Head::kLoss
    std::vector<StateUpdate> states = {};  // of training: what Layers::UpdateState was told
  };

  virtual ~Model() = default;
  // The name of the family that made it (models/family.h).
  const std::string& family() const { return family_; }

  // All parameters, in the order of the forward pass; names are unique.
  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  int64_t parameter_count() const;
  const std::vector<StateInfo>& states() const { return states_; }
  const std::vector<SingularStates>& singular_states() const { return singular_states_; }
  // The inputs of a batch of one sample with one token, by name.
  const std::map<std::string, graph::TensorType>& inputs() const { return inputs_; }
  // What a checkpoint holds: the parameters, and the states that are the same on all ranks.
  std::vector<ParameterInfo> Stored() const;
  // Fills parameters(), states(), singular_states() and inputs() by building the forward pass once.
  // See WithParameters.
  void ListParameters();
  // Number of blocks "block.0", "block.1", …: one more than the highest number.
  int64_t block_count() const;
  // What messages call it: "llama model with 2 layers", "ResNet-20".
  virtual std::string title() const;

  // What a step trains, in the order in which the objectives are updated.
  virtual std::vector<Objective> objectives() const { return {{}}; }

  // Appends the forward graph; with kLoss, up to the loss of that objective. The graph declares the
  // parameters that it reads (Role::kParameter) and its inputs (Role::kInput). Other code relies on
  // the meaning of these inputs:
  //   tokens        i32[B,T]
  //   targets       i32[B,T]  (kLoss) negative: ignored
  //   token_weight  f32[]     (kLoss) 1 / number of targets in the whole batch that count; named
  //                           NAME.token_weight for an objective that has a name
  //   sample_weight f32[]     (kLoss) 1 / number of samples in the whole batch (in an evaluation,
  //                           in all its batches); named likewise
  //   positions     i32[B,T]  (kLoss, ModelSpec::documents_apart) of each token in its document: 0
  //                           for a document's first token, then 1, 2, …, as position_ids of
  //                           transformers; a row's padding is a document
  //   reference     f32[B,T]  (kLoss, ModelSpec::preference) at each document's first token its
  //                           reference log-probability (ops/loss/preference_loss.h); token_weight
  //                           is then 1 / number of pairs in the whole batch
  //   last          i32[B]    (kLogits) the position whose logits are wanted
  //   rng           i32[2]    (training with dropout) seed, micro-step
  Outputs Build(graph::Builder& builder, Batch batch, Head head, bool training,
                std::string_view objective = "") const;

  // Empty: every rank holds all parameters.
  virtual std::vector<Sharding> sharding() const { return {}; }
  // By default, parameters are stored under their own names.
  virtual CheckpointTable checkpoint_table() const;
  // What becomes of a parameter of which a checkpoint that training starts from has no tensor of
  // the right shape, because settings beside the weights ask for another one.
  enum class Misfit {
    kRefused,
    kFresh,          // the parameter is initialised as in a new model: a head for other classes
    kFitted,         // Fit makes the parameter from the tensor: positions of more or fewer patches
    kFittedOrFresh,  // like kFitted; like kFresh if the checkpoint has no tensor of the name
  };
  // By default the tables of new_tokens() are fitted, and all else is refused.
  virtual Misfit OnMisfit(const ParameterInfo& parameter) const;
  // Makes a parameter for which OnMisfit says so from a checkpoint's tensor of another shape.
  // UserError when that is impossible. By default, a table of new_tokens().
  virtual void Fit(const ParameterInfo& parameter, std::span<const int64_t> shape,
                   std::span<const float> stored, float* to) const;

  // The tokens of a model that has more of them than the checkpoint that it starts from
  // (model.vocab). Their rows of `tables`, parameters by name, begin at the mean of the
  // checkpoint's.
  struct NewTokens {
    int64_t first = 0, end = 0;  // ids; equal: there are none
    std::vector<std::string> tables = {};
  };
  const NewTokens& new_tokens() const { return new_tokens_; }
  // Before ListParameters. `stored`: the checkpoint's vocabulary. Of `tables` those count that are
  // parameters of the model.
  void set_new_tokens(int64_t stored, int64_t vocab, std::vector<std::string> tables);

  // Probabilities of dropout, where the forward pass has any.
  virtual DropoutRates dropout() const { return {}; }
  // nullopt: it learns no preferences.
  virtual std::optional<ops::PreferenceOptions> preference() const { return std::nullopt; }
  // nullopt: the model continues no texts.
  virtual std::optional<TextSizes> text_sizes() const { return std::nullopt; }
  // Throws UserError when the model cannot read such a batch.
  virtual void CheckBatch(const Batch& /*batch*/) const {}
  // The samples that act on one another in training.
  virtual SampleCoupling sample_coupling() const { return SampleCoupling::Independent(); }
  // The least numbers that integer inputs cannot have, by input ("labels"). Negative numbers are
  // targets that don't count.
  virtual std::map<std::string, int64_t> input_bounds() const { return {}; }
  // nullopt: the model does not classify samples.
  virtual std::optional<ProblemType> problem_type() const { return std::nullopt; }
  // How many classes it tells apart, of samples or of their pixels; 0: none.
  virtual int64_t classes() const { return 0; }
  // The names of the classes that the model tells apart, in the order of their numbers. They come
  // from data or from a checkpoint's config.json, and go into the next one. Empty: none are known.
  const std::vector<std::string>& class_names() const { return class_names_; }
  // Names beyond the model's classes are left out; classes beyond the names are called LABEL_N.
  // Does nothing where the model has no classes, or where no name says more than a number.
  void set_class_names(std::vector<std::string> names);

  // What identifies the model, by key ("model.layers"): training goes on from a snapshot only if
  // the model has the same description.
  virtual std::map<std::string, std::string> description() const;
  // Whether tensor-parallel ranks can divide the tokens of what lies between split layers.
  virtual bool shares_tokens() const { return true; }
  // Sizes that must divide equally among tensor-parallel ranks, by setting.
  virtual std::vector<std::pair<std::string, int64_t>> shared_sizes() const { return {}; }
  // Writes the model's members of config.json, from model_type on.
  virtual void WriteConfig(nlohmann::ordered_json& config) const;

 protected:
  // `settings` describe the model, unless it overrides description() and WriteConfig().
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
  std::vector<std::string> class_names_;
  NewTokens new_tokens_;
};

// Makes a model ready for use by listing its parameters.
template <typename M>
std::unique_ptr<M> WithParameters(std::unique_ptr<M> model) {
  model->ListParameters();
  return model;
}

// The name that transformers gives to a class without one: "LABEL_3".
std::string NumberedClass(int64_t number);

// Throws UserError when the model continues no texts.
TextSizes TextSizesOf(const Model& model);
// Whether the evaluation of one of its objectives leaves images (Outputs::images).
bool MakesImages(const Model& model);

}  // namespace plimsoll::models
