// LoRA: linear layers whose weights are frozen, with a trained product of low rank beside each.
// Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1.
//
//   y = x · Wᵀ + bias + scale · (x · Aᵀ) · Bᵀ      A [r,in], B [out,r]; only A and B are trained
//
// What Hugging Face calls a module, q_proj, may be some rows of a weight here, qkv. Each targeted
// module has an A and a B of its own; those of one weight lie in one parameter each, stacked by
// rows as the weight's modules are: LAYER.lora_a [m·r,in], LAYER.lora_b [out_1+…+out_m,r].
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
  int64_t first_row = 0;  // of the weight that it is a part of
  int64_t rows = 0;       // as many

  bool operator==(const Module&) const = default;
};

// A linear layer with those of its modules that are targeted.
struct Layer {
  std::string name;                          // "block.0.attn.qkv"
  graph::Shape weight;                       // [out,in]
  std::vector<Module> modules;               // in the order of their rows
  std::optional<models::Sharding> sharding;  // of the weight, where ranks can share it

  std::string WeightName() const { return name + ".weight"; }
  std::string AName() const { return name + ".lora_a"; }
  std::string BName() const { return name + ".lora_b"; }
};

struct Lora {
  int64_t rank = 0;  // r; 0: no adapters
  double alpha = 0;
  bool rslora = false;  // scale by the root of r (Kalajdzievski 2023)
  double dropout = 0;   // of x, on its way to A; in training
  std::vector<Layer> layers;

  bool enabled() const { return rank > 0; }
  double scale() const;  // alpha / r or alpha / √r
};

// The model's linear layers that `targets` name; the head is none of them. A target is the end of a
// module's name ("q_proj", "attn.c_proj") or a pattern of such an end ("layers.?.mlp.*");
// "all-linear" is all of them. UserError, without a key, on a target that matches nothing.
std::vector<Layer> SelectLayers(const models::Model& model,
                                const std::vector<std::string>& targets);

// The shortest list of ends of names that selects these modules and no others of the model.
std::vector<std::string> TargetsOf(const models::Model& model, const std::vector<Layer>& layers);

// A and B of every layer: A uniform within ±1/√in, as PEFT begins, B zero.
std::vector<models::ParameterInfo> Parameters(const Lora& lora);

// Names of the parameters that are not trained beside adapters: all of the model's.
std::vector<std::string> FrozenParameters(const models::Model& model);

// As models::SplitParameters, with the adapters' own. Where a rank has some of a weight's rows, A
// is whole and B is split as they are; where it has some of the columns, A is split and B whole.
std::map<std::string, models::SplitParameter> SplitParameters(const models::Model& model,
                                                              const Lora& lora, int64_t ranks);

// weight += scale · B · A, in float32: what the layer and its adapter compute, as one weight.
// `a` and `b` are those of LAYER.lora_a and .lora_b.
void Merge(const Lora& lora, const Layer& layer, std::span<const float> a, std::span<const float> b,
           std::span<float> weight);

}  // namespace plimsoll::adapters
