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

// Reads spec.rope_theta and spec.rope_scaling from rope_theta, rope_scaling and rope_parameters,
// the form of transformers from version 5 on. UserError when two of these keys contradict each
// other, and on parts that no spec can express.
void ReadRope(const formats::JsonObject& config, ModelSpec& spec);

// Writes rope_theta and rope_scaling, which all versions of transformers read.
void WriteRope(const ModelSpec& spec, nlohmann::ordered_json& config);

// The keys that ReadRope reads.
std::vector<formats::KeyRule> RopeKeys();

std::optional<SpecProblem> FindRopeProblem(const ModelSpec& spec);

}  // namespace plimsoll::models
