// Layers: an op together with the parameters it needs, named within the builder's scope. The layer
// "qkv" in scope "block.3.attn" has the parameters block.3.attn.qkv.weight and .bias and the
// result block.3.attn.qkv. Everything is float32.
//
// B batch, T sequence, D width, H heads, G key-value heads, hd head width.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "graph/builder.h"
#include "models/dropout_rates.h"
#include "models/model.h"
#include "models/model_spec.h"

namespace plimsoll::models {

// The forward pass under construction: a builder, the batch, and the parameters made so far.
class Layers {
 public:
  // The purpose of the forward pass. Only in training there is dropout, where its rate is above 0,
  // and states are updated. `objective` is the objective whose loss is wanted.
  struct Purpose {
    bool training = false;
    DropoutRates dropout = {};
    std::string_view objective = "";
  };
  Layers(graph::Builder& builder, Batch batch, const Purpose& purpose)
      : builder_(builder),
        batch_(batch),
        training_(purpose.training),
        dropout_(purpose.training ? purpose.dropout : DropoutRates()),
        objective_(purpose.objective) {}
  Layers(const Layers&) = delete;
  Layers& operator=(const Layers&) = delete;

  graph::Builder& builder() { return builder_; }
  const Batch& batch() const { return batch_; }
  bool training() const { return training_; }
  const DropoutRates& dropout() const { return dropout_; }
  const std::string& objective() const { return objective_; }
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
  // Moves the nodes that only updates of states need behind all others, where a device can run them
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
  std::string objective_;
  std::vector<ParameterInfo> parameters_;
  std::vector<StateInfo> states_;
  std::vector<SingularStates> singular_states_;
  std::vector<StateUpdate> state_updates_;
};

// x[...,K] → x · weightᵀ + bias, [...,outputs]; the bias starts at 0.
struct LinearOptions {
  bool bias = true;
  double init_std = 0.02;
};
graph::Value Linear(Layers& g, std::string_view name, graph::Value x, int64_t outputs,
                    LinearOptions options);

// Normalizes over the last dimension; weight starts at 1, bias at 0.
graph::Value LayerNorm(Layers& g, std::string_view name, graph::Value x, double eps);
graph::Value RmsNorm(Layers& g, std::string_view name, graph::Value x, double eps);

// A parameter weight[O,…] divided by its spectral norm (ops/norms/spectral_norm.h). States: NAME.u
// and NAME.v, which come near its first singular vectors. Each call for it in training makes one
// power iteration, from the vectors of the call before, and divides by the result; an evaluation
// takes them as they are. Every micro-step begins with the vectors with which the update began.
// A new model's vectors have made 15 iterations, as PyTorch's; they begin with equal elements,
// where PyTorch's begin with random ones, and so follow from the weight alone.
graph::Value SpectralNorm(Layers& g, std::string_view name, graph::Value weight);

// The table NAME.weight, [rows,width], of token or position embeddings.
graph::Value EmbeddingTable(Layers& g, std::string_view name, int64_t rows, int64_t width,
                            double init_std);
// tokens i32[B,T] → [B,T,D]: table[token] (+ position[t]).
graph::Value Embedding(Layers& g, std::string_view name, graph::Value tokens, graph::Value table,
                       graph::Value position = graph::kNoTensor);

// Packed qkv[B,T,(H+2G)·hd]: all heads of q, then of k, then of v.
struct HeadCounts {
  int64_t heads;
  int64_t kv_heads;
};
// Turns q and k by their positions (Su et al. 2021).
graph::Value Rotary(Layers& g, graph::Value qkv, HeadCounts counts, double theta,
                    const std::optional<RopeScaling>& scaling);
// Which keys a query sees.
struct AttentionMask {
  bool causal = true;
  graph::Value lengths = graph::kNoTensor;  // i32[B], of padded rows
};
// Attention; → [B,T,H·hd]. Drops attention probabilities at the pass's rate.
graph::Value Attention(Layers& g, graph::Value qkv, HeadCounts counts, AttentionMask mask = {});

graph::Value Gelu(Layers& g, graph::Value x, Activation activation);
graph::Value SwiGlu(Layers& g, graph::Value gate_up);  // [...,2F] → [...,F]
graph::Value Add(Layers& g, std::string_view name, graph::Value a, graph::Value b);
// Drops elements with probability p, one of Layers::dropout(); with p = 0, x itself.
graph::Value Dropout(Layers& g, std::string_view name, graph::Value x, double p);
// In training, drops samples of a residual branch with probability p (ops/elementwise/drop_path.h).
graph::Value DropPath(Layers& g, std::string_view name, graph::Value branch, double p);
// The p of block `block` of `blocks`: from 0 for the first rising to `most` for the last (Huang et
// al. 2016, equation 4, counted as timm does).
double DropPathOf(double most, int64_t block, int64_t blocks);

// Picks one position per row, given by the input "last": x[B,T,D] → [B,D]. With Head::kLoss, x
// itself.
graph::Value HeadRows(Layers& g, graph::Value x, Head head);
// x · tableᵀ (+ bias): returns the loss against the input "targets", or the logits.
Model::Outputs LanguageModelHead(Layers& g, graph::Value x, graph::Value table, Head head,
                                 graph::Value bias = graph::kNoTensor);

}  // namespace plimsoll::models
