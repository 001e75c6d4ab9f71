#include "models/rope_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "models/config_keys.h"
#include "models/language_model.h"

namespace plimsoll::models {

using formats::JsonObject;
using formats::KeyRule;
using formats::Read;
using RopeType = RopeScaling::Type;

namespace {

constexpr const char* kOriginal = "original_max_position_embeddings";
constexpr const char* kPartial = "partial_rotary_factor";
constexpr int64_t kPhi3Original = 4096;  // default of the key in transformers' Phi3Config

// What a config.json says about the rotary embedding; a key that it lacks is nullopt.
struct Rope {
  std::optional<double> theta, partial;
  std::optional<RopeScaling> scaling;

  std::string ScalingText() const {
    if (!scaling) return "none";
    const RopeScaling& s = *scaling;
    const std::string factor = fmt::format("factor {}", s.factor);
    switch (s.type) {
      case RopeType::kLinear:
        return "linear, " + factor;
      case RopeType::kLlama3:
        return fmt::format("llama3, {}, low {}, high {}, original {}", factor, s.low_freq_factor,
                           s.high_freq_factor, s.original_sequence);
      case RopeType::kYarn:
        return fmt::format("yarn, {}, attention {}, beta {} to {}, original {}", factor,
                           s.attention_factor, s.beta_fast, s.beta_slow, s.original_sequence);
      case RopeType::kLongrope:
        return fmt::format("longrope, attention {}, original {}, short {}, long {}",
                           s.attention_factor, s.original_sequence, fmt::join(s.short_factor, " "),
                           fmt::join(s.long_factor, " "));
    }
    return "";
  }
};

// transformers' default attention factor for yarn: Peng et al. 2023, equation 22.
double YarnMagnitude(double factor, double scale = 1) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

// transformers' default attention factor for longrope: Ding et al. 2024.
double LongropeMagnitude(double factor, int64_t original) {
  return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
}

class RopeReader {
 public:
  RopeReader(const JsonObject& config, const ModelSpec& spec, RopeForm form)
      : config_(config), spec_(spec), form_(form) {}

  // `key` is rope_scaling, which transformers before version 5 writes, or rope_parameters.
  Rope Object(const char* key) const { return Parameters(config_.RequireObject(key)); }

  Rope Parameters(const JsonObject& object) const {
    for (const std::string& member : object.Keys()) {
      if (object.json().at(member).is_object()) {
        object.Fail(member, "parameters that differ by layer are not supported");
      }
    }
    Rope rope;
    rope.scaling = Scaling(object);
    rope.partial = Partial(object);
    if (object.Has("rope_theta")) rope.theta = object.RequireFloat("rope_theta");
    return rope;
  }

  std::optional<double> Partial(const JsonObject& object) const {
    if (!object.Has(kPartial)) return std::nullopt;
    const double partial = object.RequireFloat(kPartial);
    if (form_ != RopeForm::kPhi3 && partial != 1) object.Fail(kPartial, "only 1 is supported");
    if (!(partial > 0 && partial <= 1)) object.Fail(kPartial, "must be above 0 and at most 1");
    return partial;
  }

 private:
  // The name of the type in this form.
  std::string Canonical(const std::string& type) const {
    const bool is_longrope = form_ == RopeForm::kPhi3 && (type == "su" || type == "yarn");
    return is_longrope ? "longrope" : type;
  }

  std::optional<RopeScaling> Scaling(const JsonObject& rope) const {
    const std::string key = rope.Has("rope_type") ? "rope_type" : "type";
    const std::string type = rope.GetString(key, "default");
    if (const std::string old = rope.GetString("type", type); Canonical(old) != Canonical(type)) {
      rope.Fail("rope_type", fmt::format("is \"{}\", but type is \"{}\"; keep one",
                                         formats::Printable(type), formats::Printable(old)));
    }
    const std::string canonical = Canonical(type);
    if (canonical == "default") {
      Check(rope, {});
      return std::nullopt;
    }
    if (canonical == "longrope") return Longrope(rope);
    if (form_ == RopeForm::kLlama && canonical == "linear") {
      Check(rope, {Read("factor")});
      return RopeScaling::Linear(rope.RequireFloat("factor"));
    }
    if (form_ == RopeForm::kLlama && canonical == "llama3") return Llama3(rope);
    if (form_ == RopeForm::kLlama && canonical == "yarn") return Yarn(rope);
    rope.Fail(key,
              fmt::format("\"{}\" is not supported, only {}", formats::Printable(type),
                          form_ == RopeForm::kPhi3 ? "default and longrope"
                                                   : "default, linear, llama3, longrope and yarn"));
  }

  RopeScaling Llama3(const JsonObject& rope) const {
    Check(rope,
          {Read("factor"), Read("low_freq_factor"), Read("high_freq_factor"), Read(kOriginal)});
    RopeScaling scaling;
    scaling.factor = rope.RequireFloat("factor");
    scaling.low_freq_factor = rope.RequireFloat("low_freq_factor");
    scaling.high_freq_factor = rope.RequireFloat("high_freq_factor");
    scaling.original_sequence = config_.Has(kOriginal) ? Original(rope) : SizeIn(rope, kOriginal);
    return scaling;
  }

  RopeScaling Yarn(const JsonObject& rope) const {
    Check(rope, {Read("factor"), Read(kOriginal), Read("attention_factor"), Read("beta_fast"),
                 Read("beta_slow"), Read("mscale"), Read("mscale_all_dim"), Read("truncate")});
    RopeScaling scaling = RopeScaling::Yarn(rope.RequireFloat("factor"), Original(rope));
    // 0 means the default, as in transformers.
    const auto positive = [&](const char* key, double& value) {
      const double said = rope.GetFloat(key, 0);
      if (said < 0) rope.Fail(key, "must be above 0");
      if (said != 0) value = said;
      return said != 0;
    };
    positive("beta_fast", scaling.beta_fast);
    positive("beta_slow", scaling.beta_slow);
    // null means false, as in transformers.
    scaling.truncate = rope.GetBool("truncate", !rope.json().contains("truncate"));
    double mscale = 0, all = 0;
    if (positive("mscale", mscale) != positive("mscale_all_dim", all)) {
      rope.Fail(mscale != 0 ? "mscale" : "mscale_all_dim",
                "changes nothing without the other of mscale and mscale_all_dim; give both or "
                "remove it");
    }
    if (mscale != 0) {
      scaling.attention_factor =
          YarnMagnitude(scaling.factor, mscale) / YarnMagnitude(scaling.factor, all);
    }
    scaling.attention_factor = rope.GetFloat("attention_factor", scaling.attention_factor);
    return scaling;
  }

  RopeScaling Longrope(const JsonObject& rope) const {
    Check(rope, {Read("factor"), Read(kOriginal), Read("attention_factor"), Read("short_factor"),
                 Read("long_factor")});
    RopeScaling scaling;
    scaling.type = RopeType::kLongrope;
    scaling.short_factor = rope.RequireFloats("short_factor");
    scaling.long_factor = rope.RequireFloats("long_factor");
    scaling.original_sequence = Original(rope);
    const double stretched =
        static_cast<double>(spec_.max_sequence) / static_cast<double>(scaling.original_sequence);
    scaling.attention_factor = rope.GetFloat(
        "attention_factor",
        LongropeMagnitude(rope.GetFloat("factor", stretched), scaling.original_sequence));
    return scaling;
  }

  // The sequence length of the first training, from a key of rope_scaling or of config.json itself.
  int64_t Original(const JsonObject& rope) const {
    const int64_t otherwise =
        form_ == RopeForm::kPhi3 ? kPhi3Original : SizeIn(rope, kOriginal, spec_.max_sequence);
    const int64_t original = SizeIn(config_, kOriginal, otherwise);
    if (const int64_t inside = SizeIn(rope, kOriginal, original); inside != original) {
      rope.Fail(
          kOriginal,
          fmt::format("is {}, but {} next to the object {} {}; keep that one alone", inside,
                      kOriginal, config_.Has(kOriginal) ? "is" : "is absent and means", original));
    }
    return original;
  }

  // Refuses keys that are neither in `of_type` nor valid for all types.
  static void Check(const JsonObject& rope, const std::vector<KeyRule>& of_type) {
    formats::CheckKeys(
        rope,
        Joined({Read("rope_type"), Read("type"), Read("rope_theta"), Read(kPartial)}, of_type));
  }

  const JsonObject& config_;
  const ModelSpec& spec_;
  RopeForm form_;
};

// The number of elements that rotate in each head, int(head_width · partial) as in transformers;
// 0: all.
int64_t RotaryWidthOf(const JsonObject& config, int64_t head_width, double partial) {
  const auto width = static_cast<int64_t>(static_cast<double>(head_width) * partial);
  if (width == head_width) return 0;
  if (width < 2 || width % 2 != 0) {
    config.Fail(kPartial, fmt::format("turns {} of {} elements of a head, and the rotary embedding "
                                      "turns pairs",
                                      width, head_width));
  }
  return width;
}

// A partial_rotary_factor from which RotaryWidthOf computes this width.
double PartialOf(const ModelSpec& spec) {
  if (spec.rotary_width == 0) return 1;
  const double whole = static_cast<double>(spec.head_width);
  double partial = static_cast<double>(spec.rotary_width) / whole;
  while (static_cast<int64_t>(whole * partial) < spec.rotary_width) {
    partial = std::nextafter(partial, 1.0);
  }
  return partial;
}

}  // namespace

RopeScaling RopeScaling::Yarn(double factor, int64_t original_sequence) {
  return {.type = RopeType::kYarn,
          .factor = factor,
          .original_sequence = original_sequence,
          .attention_factor = YarnMagnitude(factor)};
}

// A file may give a value under several keys, which must agree.
void ReadRope(const JsonObject& config, ModelSpec& spec, RopeForm form) {
  constexpr double kDefaultTheta = 10000.0;
  const RopeReader reader(config, spec, form);
  Rope rope;
  rope.partial = reader.Partial(config);
  SizeIn(config, kOriginal, 1);  // transformers reads it only if the file has a scaling
  if (config.Has("rope_theta")) rope.theta = config.RequireFloat("rope_theta");
  const char* scaling_key = nullptr;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.Has(key)) continue;
    const Rope other = reader.Object(key);
    const auto agree = [&](const char* name, std::optional<double>& value,
                           const std::optional<double>& said) {
      if (value && said && *value != *said) {
        config.RequireObject(key).Fail(
            name, fmt::format("is {}, but {} is {}; keep one of the two", *said, name, *value));
      }
      if (said) value = said;
    };
    agree("rope_theta", rope.theta, other.theta);
    agree(kPartial, rope.partial, other.partial);
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
  spec.rotary_width = RotaryWidthOf(config, spec.head_width, rope.partial.value_or(1));
}

std::optional<double> ReadRopeParameters(const JsonObject& parameters, ModelSpec& spec) {
  const Rope rope = RopeReader(parameters, spec, RopeForm::kLlama).Parameters(parameters);
  spec.rope_scaling = rope.scaling;
  return rope.theta;
}

void WriteRope(const ModelSpec& spec, nlohmann::ordered_json& config, RopeForm form) {
  const bool outside = form == RopeForm::kPhi3;
  config["rope_theta"] = spec.rope_theta;
  if (outside) {
    config[kPartial] = PartialOf(spec);
    config[kOriginal] =
        spec.rope_scaling ? spec.rope_scaling->original_sequence : spec.max_sequence;
  }
  nlohmann::ordered_json& object = config["rope_scaling"];
  if (!spec.rope_scaling) return;
  const RopeScaling& scaling = *spec.rope_scaling;
  switch (scaling.type) {
    case RopeType::kLinear:
      object["type"] = "linear";  // versions before 4.43 do not know rope_type
      object["factor"] = scaling.factor;
      break;
    case RopeType::kLlama3:
      object["rope_type"] = "llama3";
      object["factor"] = scaling.factor;
      object["low_freq_factor"] = scaling.low_freq_factor;
      object["high_freq_factor"] = scaling.high_freq_factor;
      object[kOriginal] = scaling.original_sequence;
      break;
    case RopeType::kYarn:
      object["rope_type"] = "yarn";
      object["factor"] = scaling.factor;
      object["attention_factor"] = scaling.attention_factor;
      object["beta_fast"] = scaling.beta_fast;
      object["beta_slow"] = scaling.beta_slow;
      object[kOriginal] = scaling.original_sequence;
      if (!scaling.truncate) object["truncate"] = false;
      break;
    case RopeType::kLongrope: {
      // Older versions of Phi-3 only allow the keys type, short_factor and long_factor.
      object[outside ? "type" : "rope_type"] = "longrope";
      object["short_factor"] = scaling.short_factor;
      object["long_factor"] = scaling.long_factor;
      const double usual = LongropeMagnitude(
          static_cast<double>(spec.max_sequence) / static_cast<double>(scaling.original_sequence),
          scaling.original_sequence);
      if (scaling.attention_factor != usual) object["attention_factor"] = scaling.attention_factor;
      if (!outside) object[kOriginal] = scaling.original_sequence;
      break;
    }
  }
}

std::vector<KeyRule> RopeKeys() {
  return {Read("rope_theta"), Read("rope_scaling"), Read("rope_parameters"), Read(kPartial),
          Read(kOriginal)};
}

std::optional<SpecProblem> FindRopeProblem(const ModelSpec& spec) {
  if (spec.head_width % 2 != 0) {
    return SpecProblem{"head_width", fmt::format("{} is odd, and the rotary embedding turns pairs",
                                                 spec.head_width)};
  }
  if (spec.rotary_width < 0 || spec.rotary_width > spec.head_width || spec.rotary_width % 2 != 0) {
    return SpecProblem{"rotary_width",
                       fmt::format("must be even and at most the head width, {}, not {}",
                                   spec.head_width, spec.rotary_width)};
  }
  if (!(spec.rope_theta > 1)) return SpecProblem{"rope_theta", "must be above 1"};
  constexpr double kMaxRopeFactor = 1e6;
  const auto in_range = [](double factor) { return factor >= 1 && factor <= kMaxRopeFactor; };
  if (!spec.rope_scaling) return std::nullopt;
  const RopeScaling& scaling = *spec.rope_scaling;
  if (!(in_range(scaling.factor) && scaling.low_freq_factor > 0 &&
        scaling.high_freq_factor > scaling.low_freq_factor && scaling.original_sequence > 0)) {
    return SpecProblem{
        "rope_scaling",
        "needs a factor from 1 to 1e6, 0 < low_freq_factor < high_freq_factor and an "
        "original sequence above 0"};
  }
  if (!(scaling.attention_factor > 0 && scaling.attention_factor <= kMaxRopeFactor &&
        scaling.beta_slow > 0 && scaling.beta_fast >= scaling.beta_slow)) {
    return SpecProblem{"rope_scaling",
                       "needs an attention_factor above 0 and at most 1e6, and 0 < beta_slow ≤ "
                       "beta_fast"};
  }
  if (scaling.type != RopeType::kLongrope) return std::nullopt;
  const int64_t pairs = (spec.rotary_width == 0 ? spec.head_width : spec.rotary_width) / 2;
  for (const auto* factors : {&scaling.short_factor, &scaling.long_factor}) {
    const bool sound = std::ssize(*factors) == pairs && std::ranges::all_of(*factors, [](double f) {
                         return f > 0 && f <= kMaxRopeFactor;
                       });
    if (sound) continue;
    return SpecProblem{
        "rope_scaling",
        fmt::format("needs {} with a factor above 0 and at most 1e6 for each of the {} pairs",
                    factors == &scaling.short_factor ? "short_factor" : "long_factor", pairs)};
  }
  return std::nullopt;
}

}  // namespace plimsoll::models
