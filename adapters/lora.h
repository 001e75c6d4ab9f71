// LoRA: a trained product of low rank is added to each of some linear layers with frozen weights.
// Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1.
//
//   y = x · Wᵀ + bias + scale · (x · Aᵀ) · Bᵀ      A [r,in], B [out,r]; only A and B are trained
//
// A linear module of Hugging Face (q_proj) may be some rows of a weight here (qkv). Each targeted
// module has its own A and B. The A's of a weight's modules are stacked by rows in one parameter,
// LAYER.lora_a [m·r,in], and so are the B's: LAYER.lora_b [out_1+…+out_m,r].
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/model.h"
#include "models/sharding.h"

namespace plimsoll::adapters {

// One of Hugging Face's linear modules.
struct Module {
  std::string name;       // "model.layers.0.self_attn.q_proj"
  int64_t first_row = 0;  // the module's first row in its weight
  int64_t rows = 0;       // the module's number of rows

  bool operator==(const Module&) const = default;
};

// A linear layer, with its targeted modules.
struct Layer {
  std::string name;             // "block.0.attn.qkv"
  graph::Shape weight;          // [out,in]
  std::vector<Module> modules;  // targeted modules, in the order of their rows
  // The weight's sharding, if tensor-parallel ranks can share it.
  std::optional<models::Sharding> sharding;

  std::string WeightName() const { return name + ".weight"; }
  std::string AName() const { return name + ".lora_a"; }
  std::string BName() const { return name + ".lora_b"; }
};

struct Lora {
  int64_t rank = 0;  // r; 0: no adapters
  double alpha = 0;
  bool rslora = false;  // scale by the root of r (Kalajdzievski 2023)
  double dropout = 0;   // dropout rate of A's input x, in training
  std::vector<Layer> layers;
  // Parameters of the model that are trained in full next to the adapters (SelectSaved).
  std::vector<models::ParameterInfo> saved = {};

  bool enabled() const { return rank > 0; }
  double scale() const;  // alpha / r or alpha / √r
};

// Whether `name` selects `module`. `name` is a module's name, the end of one ("q_proj",
// "attn.c_proj"), or a pattern of such an end.
bool MeansModule(const std::string& name, const std::string& module);

// The model's linear layers that `targets` selects, never the head. A target is the end of a
// module's name ("q_proj", "attn.c_proj") or a pattern of such an end ("layers.?.mlp.*");
// "all-linear" selects all. Weights in `saved`, which are trained in full, get no adapter. Throws a
// UserError without a key on a target that matches nothing, and when no layer is left.
std::vector<Layer> SelectLayers(const models::Model& model, const std::vector<std::string>& targets,
                                std::span<const models::ParameterInfo> saved = {});

// The shortest list of name ends that selects these modules and no others of the model.
std::vector<std::string> TargetsOf(const models::Model& model, const std::vector<Layer>& layers);

// A and B of every layer: A is initialised uniformly within ±1/√in, like PEFT's, B with zeros.
std::vector<models::ParameterInfo> Parameters(const Lora& lora);

// The parameters that are trained and that snapshots and adapter folders hold: Parameters(), then
// `saved`.
std::vector<models::ParameterInfo> TrainedParameters(const Lora& lora);

// The parameters that an adapter leaves untrained: all parameters of the model except `saved`.
std::vector<std::string> FrozenParameters(const models::Model& model, const Lora& lora);

// Like models::SplitParameters, including the adapters' parameters. If ranks split a weight's rows,
// A is replicated and B is split like the rows. If ranks split a weight's columns, A is split and B
// is replicated.
std::map<std::string, models::SplitParameter> SplitParameters(const models::Model& model,
                                                              const Lora& lora, int64_t ranks);

// weight += scale · B · A, in float32: merges a layer and its adapter into one weight. `a` and `b`
// are the values of LAYER.lora_a and .lora_b.
void Merge(const Lora& lora, const Layer& layer, std::span<const float> a, std::span<const float> b,
           std::span<float> weight);

}  // namespace plimsoll::adapters
