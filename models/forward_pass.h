// The forward pass of a model while it is built, and the parameters and states that it declares.
//
// B batch, T sequence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "graph/builder.h"
#include "models/dropout_rates.h"
#include "ops/loss/preference_loss.h"

namespace plimsoll::models {

// How a new parameter is initialised.
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

// A float32 tensor that a model keeps from step to step, in addition to its parameters, such as
// running statistics. All micro-steps of a step read the value at the start of the step. New values
// are kept apart (Layers::UpdateState) until the parameters are updated; if the step is skipped,
// they are dropped.
struct StateInfo {
  // For OverRanks::kOwn: a rank's initial value when a run resumes with another number of data
  // ranks.
  enum OnOtherRanks { kMeanOfAll, kInitial };

  std::string name;  // "norm.running_mean"
  graph::Shape shape = {};
  float initial = 0;  // initial value of every element
  // How new values are merged. With OverMicroSteps::kLast each micro-step continues from the result
  // of the previous one; otherwise each starts from the value at the start of the step. A state of
  // which each rank has its own value (OverRanks::kOwn) is not stored in checkpoints.
  graph::Merge merge = {};
  OnOtherRanks on_other_ranks = kMeanOfAll;

  ParameterInfo info() const { return {name, shape, {}}; }
  bool operator==(const StateInfo&) const = default;
};

// The states of a spectral norm, and the parameter that is divided by the norm. In a new model,
// power iterations compute them from the parameter (ops/norms/spectral_norm.h).
struct SingularStates {
  std::string parameter, u, v;
};

struct Batch {
  int64_t batch;     // B
  int64_t sequence;  // T
  // The longest text in tokens, including tokens in a key-value cache; 0: T.
  int64_t context = 0;
};

// How a training pass updates a state.
struct StateUpdate {
  graph::Value pending;  // the value that earlier micro-steps left (OwnedAs::kPending)
  graph::Value next;
};

// Builds a forward pass: has a graph builder, the batch, and the parameters declared so far.
class Layers {
 public:
  // What the forward pass is for. Dropout and updates of states are active in training only.
  // `objective` names the objective whose loss is computed.
  struct Purpose {
    bool training = false;
    DropoutRates dropout = {};
    std::string_view objective = "";
    // Options of a decoder's preference loss.
    std::optional<ops::PreferenceOptions> preference = {};
  };
  Layers(graph::Builder& builder, Batch batch, const Purpose& purpose)
      : builder_(builder),
        batch_(batch),
        training_(purpose.training),
        dropout_(purpose.training ? purpose.dropout : DropoutRates()),
        preference_(purpose.preference),
        objective_(purpose.objective) {}
  Layers(const Layers&) = delete;
  Layers& operator=(const Layers&) = delete;

  graph::Builder& builder() { return builder_; }
  const Batch& batch() const { return batch_; }
  bool training() const { return training_; }
  const DropoutRates& dropout() const { return dropout_; }
  const std::string& objective() const { return objective_; }
  const std::optional<ops::PreferenceOptions>& preference() const { return preference_; }
  const graph::Shape& shape(graph::Value value) const { return builder_.shape(value); }

  // Declares a parameter at its first use. A layer that is applied twice shares its parameters.
  // Throws InternalError when a later use has another shape.
  graph::Value Parameter(std::string_view name, graph::Shape shape, Initializer init);
  // Returns a state's value at the start of the step. `state.name` is within the builder's scope.
  graph::Value State(StateInfo state);
  // Declares that u and v are the states of a parameter's spectral norm.
  void DeclareSingular(graph::Value parameter, graph::Value u, graph::Value v);
  // Updates a state in training: `next` computes its new value from the pending value, which
  // earlier micro-steps and earlier calls left. Outside of training, `next` is not called.
  void UpdateState(graph::Value state, FunctionRef<graph::Value(graph::Value)> next);
  // Moves the nodes that only state updates need to the end, where a device can run them together.
  void MoveUpdatesToEnd();
  graph::Value Input(std::string_view name, graph::DType dtype, graph::Shape shape);
  graph::Value Tokens(std::string_view name);  // the input, i32[B,T], of that name
  graph::Value Rng();                          // the input "rng", i32[2]
  graph::Value TokenWeight();                  // the objective's input "token_weight"
  graph::Value SampleWeight();                 // the objective's input "sample_weight"

  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  const std::vector<StateInfo>& states() const { return states_; }
  const std::vector<SingularStates>& singular_states() const { return singular_states_; }
  const std::vector<StateUpdate>& state_updates() const { return state_updates_; }

 private:
  graph::Value Declared(std::string name, graph::Role role, const graph::TensorType& type);

  graph::Builder& builder_;
  Batch batch_;
  bool training_;
  DropoutRates dropout_;
  std::optional<ops::PreferenceOptions> preference_;
  std::string objective_;
  std::vector<ParameterInfo> parameters_;
  std::vector<StateInfo> states_;
  std::vector<SingularStates> singular_states_;
  std::vector<StateUpdate> state_updates_;
};

}  // namespace plimsoll::models
