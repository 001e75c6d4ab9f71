// The rotary embedding (RoPE) of Llama-like families: its keys in config.json, and which of their
// values are valid.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "formats/json.h"
#include "formats/key_rules.h"
#include "models/model_spec.h"

namespace plimsoll::models {

// How a family's class in transformers reads the keys of the rotary embedding.
enum class RopeForm {
  kLlama,  // rotates complete heads
  // May rotate a part of each head (partial_rotary_factor). The only scaling is longrope, which
  // older files call "su" or "yarn". original_max_position_embeddings is a key of config.json
  // itself, outside rope_scaling; its default is 4096.
  kPhi3,
};

// Reads spec.rope_theta, spec.rope_scaling and spec.rotary_width from rope_theta, rope_scaling,
// partial_rotary_factor, original_max_position_embeddings and rope_parameters (transformers from
// version 5 on). The spec must already have head_width and max_sequence. Throws a UserError when
// two of these keys contradict each other, for unknown keys in the objects, and for values that no
// spec can express.
void ReadRope(const formats::JsonObject& config, ModelSpec& spec, RopeForm form = RopeForm::kLlama);

// Reads one object of rotary parameters, of which files may have one for each layer type. Sets
// spec.rope_scaling, and returns the object's rope_theta if it has one.
std::optional<double> ReadRopeParameters(const formats::JsonObject& parameters, ModelSpec& spec);

// Writes rope_theta, rope_scaling and, with kPhi3, the keys next to them, in a form that every
// version of transformers with this scaling can read. Older versions do not know yarn's `truncate`,
// which is written only if it is false.
void WriteRope(const ModelSpec& spec, nlohmann::ordered_json& config,
               RopeForm form = RopeForm::kLlama);

// The keys that ReadRope reads.
std::vector<formats::KeyRule> RopeKeys();

std::optional<SpecProblem> FindRopeProblem(const ModelSpec& spec);

}  // namespace plimsoll::models
