// The rotary embedding (RoPE) of Llama-like families: its keys in config.json, and which values of
// it describe a model.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "formats/json.h"
#include "formats/key_rules.h"
#include "models/model_spec.h"

namespace plimsoll::models {

// How a family's class of transformers reads these keys.
enum class RopeForm {
  kLlama,  // all of a head turns
  // A part of a head may turn (partial_rotary_factor). The only scaling is longrope, which older
  // files call "su" or "yarn". original_max_position_embeddings is a key next to the object, and
  // 4096 without it.
  kPhi3,
};

// Reads spec.rope_theta, spec.rope_scaling and spec.rotary_width from rope_theta, rope_scaling,
// partial_rotary_factor, original_max_position_embeddings and rope_parameters, the form of
// transformers from version 5 on. The spec has its head_width and max_sequence. UserError when two
// of these keys contradict each other, on members of the objects that Plimsoll doesn't know, and on
// parts that no spec can express.
void ReadRope(const formats::JsonObject& config, ModelSpec& spec, RopeForm form = RopeForm::kLlama);

// Reads one object of such parameters, as files have them for each type of layers: sets
// spec.rope_scaling, and returns the object's rope_theta, if it says one.
std::optional<double> ReadRopeParameters(const formats::JsonObject& parameters, ModelSpec& spec);

// Writes rope_theta, rope_scaling and, with kPhi3, the keys next to them, as all versions of
// transformers read them that know the scaling. Older versions don't know yarn's `truncate`,
// which is written only where it is false.
void WriteRope(const ModelSpec& spec, nlohmann::ordered_json& config,
               RopeForm form = RopeForm::kLlama);

// The keys that ReadRope reads.
std::vector<formats::KeyRule> RopeKeys();

std::optional<SpecProblem> FindRopeProblem(const ModelSpec& spec);

}  // namespace plimsoll::models
