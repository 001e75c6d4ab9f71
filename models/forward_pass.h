// The forward pass of a model under construction, and the parameters and states that it declares.
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

// A float32 tensor that a model carries from step to step besides its parameters, such as running
// statistics. All micro-steps of a step read the value that the step before left. Their new values
// wait (Layers::UpdateState) until the update of the parameters, which takes them over, or drops
// them if the step is skipped.
struct StateInfo {
  // With OverRanks::kOwn, what a rank begins with when another number of data ranks continues the
  // run.
  enum OnOtherRanks { kMeanOfAll, kInitial };

  std::string name;  // "norm.running_mean"
  graph::Shape shape = {};
  float initial = 0;  // value of every element
  // Of the new values. With OverMicroSteps::kLast each micro-step continues from what the one
  // before made, else from the value that the step began with. A state of which each rank keeps its
  // own value (OverRanks::kOwn) is in no checkpoint.
  graph::Merge merge = {};
  OnOtherRanks on_other_ranks = kMeanOfAll;

  ParameterInfo info() const { return {name, shape, {}}; }
  bool operator==(const StateInfo&) const = default;
};

// The states of a spectral norm, and the parameter that it divides. New ones are made from it by
// power iterations (ops/norms/spectral_norm.h).
struct SingularStates {
  std::string parameter, u, v;
};

struct Batch {
  int64_t batch;     // B
  int64_t sequence;  // T
  // The longest text of which the program processes tokens, those in a cache included; 0: T.
  int64_t context = 0;
};

// How a training pass changes a state.
struct StateUpdate {
  graph::Value pending;  // the state as earlier micro-steps have left it (OwnedAs::kPending)
  graph::Value next;
};

// The forward pass under construction: a builder, the batch, and the parameters made so far.
class Layers {
 public:
  // The purpose of the forward pass. Only in training there is dropout, where its rate is above 0,
  // and states are updated. `objective` is the objective whose loss is wanted.
  struct Purpose {
    bool training = false;
    DropoutRates dropout = {};
    std::string_view objective = "";
    std::optional<ops::PreferenceOptions> preference = {};  // of a decoder's head
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

  // Declares a parameter at its first use: a layer that is applied twice has one set of parameters.
  // Throws InternalError when a later use has another shape.
  graph::Value Parameter(std::string_view name, graph::Shape shape, Initializer init);
  // Returns a state as it was when the step began. `state.name` is within the builder's scope.
  graph::Value State(StateInfo state);
  // Says that u and v are states of a spectral norm of a parameter.
  void DeclareSingular(graph::Value parameter, graph::Value u, graph::Value v);
  // In training, `next` computes the new value of a state of this pass from its pending value,
  // which earlier micro-steps and earlier calls have left. Otherwise it is not called.
  void UpdateState(graph::Value state, FunctionRef<graph::Value(graph::Value)> next);
  // Moves the nodes that only updates of states need after all others, where a device can run them
  // together.
  void MoveUpdatesToEnd();
  graph::Value Input(std::string_view name, graph::DType dtype, graph::Shape shape);
  graph::Value Tokens(std::string_view name);  // an input i32[B,T]
  graph::Value Rng();                          // the input i32[2]
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
