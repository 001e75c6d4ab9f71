#include "models/rope_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "models/language_model.h"

namespace plimsoll::models {

using formats::JsonObject;
using formats::Read;

namespace {

// What a config.json says about the rotary embedding; an empty member: it says nothing.
struct Rope {
  std::optional<double> theta;
  std::optional<RopeScaling> scaling;

  std::string ScalingText() const {
    if (!scaling) return "none";
    const std::string factor = fmt::format("factor {}", scaling->factor);
    if (scaling->type == RopeScaling::Type::kLinear) return "linear, " + factor;
    return fmt::format("llama3, {}, low {}, high {}, original {}", factor, scaling->low_freq_factor,
                       scaling->high_freq_factor, scaling->original_sequence);
  }
};

void RequireWholeHeads(const JsonObject& object) {
  if (object.GetFloat("partial_rotary_factor", 1.0) != 1.0) {
    object.Fail("partial_rotary_factor", "only 1 is supported");
  }
}

std::optional<RopeScaling> ReadScaling(const JsonObject& rope) {
  const std::string key = rope.Has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.GetString(key, "default");
  if (const std::string old = rope.GetString("type", type); old != type) {
    rope.Fail("rope_type", fmt::format("is \"{}\", but type is \"{}\"; keep one",
                                       formats::Printable(type), formats::Printable(old)));
  }
  if (type == "default") return std::nullopt;
  if (type == "linear") return RopeScaling::Linear(rope.RequireFloat("factor"));
  if (type != "llama3") {
    rope.Fail(key, fmt::format("\"{}\" is not supported, only default, linear and llama3",
                               formats::Printable(type)));
  }
  RopeScaling scaling;
  scaling.factor = rope.RequireFloat("factor");
  scaling.low_freq_factor = rope.RequireFloat("low_freq_factor");
  scaling.high_freq_factor = rope.RequireFloat("high_freq_factor");
  scaling.original_sequence = SizeIn(rope, "original_max_position_embeddings");
  return scaling;
}

// `key` is rope_scaling, as versions of transformers before 5 write it, or rope_parameters.
Rope ReadRopeObject(const JsonObject& config, const char* key) {
  const JsonObject object = config.RequireObject(key);
  for (const std::string& member : object.Keys()) {
    if (object.json().at(member).is_object()) {
      object.Fail(member, "parameters that differ by layer are not supported");
    }
  }
  RequireWholeHeads(object);
  Rope rope;
  if (object.Has("rope_theta")) rope.theta = object.RequireFloat("rope_theta");
  rope.scaling = ReadScaling(object);
  return rope;
}

}  // namespace

// All keys that give the same value must agree on it.
void ReadRope(const JsonObject& config, ModelSpec& spec) {
  constexpr double kDefaultTheta = 10000.0;
  RequireWholeHeads(config);
  Rope rope;
  if (config.Has("rope_theta")) rope.theta = config.RequireFloat("rope_theta");
  const char* scaling_key = nullptr;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.Has(key)) continue;
    const Rope other = ReadRopeObject(config, key);
    if (rope.theta && other.theta && *rope.theta != *other.theta) {
      config.RequireObject(key).Fail("rope_theta",
                                     fmt::format("is {}, but rope_theta is {}; keep one of the two",
                                                 *other.theta, *rope.theta));
    }
    if (other.theta) rope.theta = other.theta;
    if (scaling_key != nullptr && other.scaling != rope.scaling) {
      config.Fail(key,
                  fmt::format("asks for another scaling ({}) than {} ({}); keep one of the two",
                              other.ScalingText(), scaling_key, rope.ScalingText()));
    }
    rope.scaling = other.scaling;
    scaling_key = key;
  }
  spec.rope_theta = rope.theta.value_or(kDefaultTheta);
  spec.rope_scaling = rope.scaling;
}

void WriteRope(const ModelSpec& spec, nlohmann::ordered_json& config) {
  config["rope_theta"] = spec.rope_theta;
  nlohmann::ordered_json& scaling = config["rope_scaling"];
  if (!spec.rope_scaling) return;
  if (spec.rope_scaling->type == RopeScaling::Type::kLinear) {
    scaling["type"] = "linear";  // versions before 4.43 do not know rope_type
    scaling["factor"] = spec.rope_scaling->factor;
    return;
  }
  scaling["rope_type"] = "llama3";
  scaling["factor"] = spec.rope_scaling->factor;
  scaling["low_freq_factor"] = spec.rope_scaling->low_freq_factor;
  scaling["high_freq_factor"] = spec.rope_scaling->high_freq_factor;
  scaling["original_max_position_embeddings"] = spec.rope_scaling->original_sequence;
}

std::vector<formats::KeyRule> RopeKeys() {
  return {Read("rope_theta"), Read("rope_scaling"), Read("rope_parameters"),
          Read("partial_rotary_factor")};
}

std::optional<SpecProblem> FindRopeProblem(const ModelSpec& spec) {
  if (spec.head_width % 2 != 0) {
    return SpecProblem{"head_width", fmt::format("{} is odd, and the rotary embedding turns pairs",
                                                 spec.head_width)};
  }
  if (!(spec.rope_theta > 1)) return SpecProblem{"rope_theta", "must be above 1"};
  constexpr double kMaxRopeFactor = 1e6;
  if (const auto& scaling = spec.rope_scaling) {
    if (!(scaling->factor >= 1 && scaling->factor <= kMaxRopeFactor &&
          scaling->low_freq_factor > 0 && scaling->high_freq_factor > scaling->low_freq_factor &&
          scaling->original_sequence > 0)) {
      return SpecProblem{
          "rope_scaling",
          "needs a factor from 1 to 1e6, 0 < low_freq_factor < high_freq_factor and an "
          "original sequence above 0"};
    }
  }
  return std::nullopt;
}

}  // namespace plimsoll::models
