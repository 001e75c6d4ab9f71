// config.json of GPT-2, Llama and Qwen2, to and from a ModelSpec.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "models/huggingface.h"

namespace plimsoll::models {
namespace {

using formats::JsonObject;
using Json = nlohmann::ordered_json;

constexpr int64_t kMaxSize = int64_t{1} << 31;  // FindProblem sets the true limits

int64_t Size(const JsonObject& config, const std::string& key) {
  return config.RequireInt(key, 1, kMaxSize);
}
int64_t Size(const JsonObject& config, const std::string& key, int64_t fallback) {
  return config.GetInt(key, fallback, 1, kMaxSize);
}

// Switches of transformers that change the mathematics in a way no ModelSpec can say.
void RequireSwitch(const JsonObject& config, const std::string& key, bool needed) {
  if (config.GetBool(key, needed) != needed) {
    config.Fail(key, fmt::format("only {} is supported", needed));
  }
}

void ReadTokens(const JsonObject& config, ModelSpec& spec) {
  if (config.Has("bos_token_id")) spec.begin_token = config.RequireInt("bos_token_id");
  if (!config.Has("eos_token_id")) return;
  if (config.json().at("eos_token_id").is_array()) {
    spec.end_tokens = config.RequireInts("eos_token_id");
  } else {
    spec.end_tokens = {config.RequireInt("eos_token_id")};
  }
}

Activation ReadActivation(const JsonObject& config) {
  const std::string name = config.GetString("activation_function", "gelu_new");
  if (name == "gelu") return Activation::kGeluErf;
  if (name == "gelu_new" || name == "gelu_fast" || name == "gelu_pytorch_tanh") {
    return Activation::kGeluTanh;
  }
  config.Fail("activation_function", fmt::format("\"{}\" is not supported, only gelu and gelu_new",
                                                 formats::Printable(name)));
}

ModelSpec ReadGpt2(const JsonObject& config) {
  RequireSwitch(config, "scale_attn_weights", true);
  RequireSwitch(config, "scale_attn_by_inverse_layer_idx", false);
  RequireSwitch(config, "add_cross_attention", false);
  ModelSpec spec;
  spec.family = Family::kGpt2;
  spec.layers = Size(config, "n_layer");
  spec.width = Size(config, "n_embd");
  spec.heads = Size(config, "n_head");
  spec.kv_heads = spec.heads;
  if (spec.width % spec.heads != 0) {
    config.Fail("n_head", fmt::format("{} heads do not divide n_embd {}", spec.heads, spec.width));
  }
  spec.head_width = spec.width / spec.heads;
  spec.ffn_width = Size(config, "n_inner", 4 * spec.width);
  spec.vocab = Size(config, "vocab_size");
  spec.max_sequence = Size(config, "n_positions");
  spec.tied = config.GetBool("tie_word_embeddings", true);
  spec.attention_bias = true;
  spec.norm_eps = config.GetFloat("layer_norm_epsilon", 1e-5);
  spec.activation = ReadActivation(config);
  spec.init_std = config.GetFloat("initializer_range", 0.02);
  spec.dropout = config.GetFloat("resid_pdrop", 0.1);
  for (const char* key : {"embd_pdrop", "attn_pdrop"}) {
    if (const double dropout = config.GetFloat(key, 0.1); dropout != spec.dropout) {
      config.Fail(key, fmt::format("{} differs from resid_pdrop {}: only one value for all three "
                                   "dropouts is supported, set them equal",
                                   dropout, spec.dropout));
    }
  }
  return spec;
}

// What a config.json says of the rotary embedding; empty: nothing.
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
  scaling.original_sequence = Size(rope, "original_max_position_embeddings");
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

// All places that say something must say the same.
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

ModelSpec ReadLlama(const JsonObject& config, Family family) {
  if (const std::string act = config.GetString("hidden_act", "silu"); act != "silu") {
    config.Fail("hidden_act",
                fmt::format("\"{}\" is not supported, only silu", formats::Printable(act)));
  }
  ModelSpec spec;
  spec.family = family;
  spec.layers = Size(config, "num_hidden_layers");
  spec.width = Size(config, "hidden_size");
  spec.heads = Size(config, "num_attention_heads");
  spec.kv_heads = Size(config, "num_key_value_heads", spec.heads);
  if (!config.Has("head_dim") && spec.width % spec.heads != 0) {
    config.Fail("num_attention_heads",
                fmt::format("{} heads do not divide hidden_size {}", spec.heads, spec.width));
  }
  spec.head_width = Size(config, "head_dim", std::max<int64_t>(1, spec.width / spec.heads));
  spec.ffn_width = Size(config, "intermediate_size");
  spec.vocab = Size(config, "vocab_size");
  spec.max_sequence = Size(config, "max_position_embeddings");
  spec.tied = config.GetBool("tie_word_embeddings", false);
  spec.norm_eps = config.GetFloat("rms_norm_eps", 1e-6);
  spec.init_std = config.GetFloat("initializer_range", 0.02);
  spec.dropout = config.GetFloat("attention_dropout", 0.0);
  ReadRope(config, spec);
  if (family == Family::kLlama) {
    spec.attention_bias = config.GetBool("attention_bias", false);
    RequireSwitch(config, "mlp_bias", false);
    return spec;
  }
  spec.attention_bias = true;
  RequireSwitch(config, "use_sliding_window", false);
  if (config.Has("layer_types")) {
    for (const std::string& type : config.RequireStrings("layer_types")) {
      if (type != "full_attention") {
        config.Fail("layer_types", fmt::format("\"{}\" is not supported, only full_attention",
                                               formats::Printable(type)));
      }
    }
  }
  return spec;
}

void WriteTokens(const ModelSpec& spec, Json& config) {
  config["bos_token_id"] = spec.begin_token ? Json(*spec.begin_token) : Json();
  if (spec.end_tokens.size() == 1) {
    config["eos_token_id"] = spec.end_tokens[0];
  } else {
    config["eos_token_id"] = spec.end_tokens.empty() ? Json() : Json(spec.end_tokens);
  }
}

Json Gpt2Config(const ModelSpec& spec) {
  Json config;
  config["architectures"] = {"GPT2LMHeadModel"};
  config["model_type"] = "gpt2";
  config["n_layer"] = spec.layers;
  config["n_embd"] = spec.width;
  config["n_head"] = spec.heads;
  config["n_inner"] = spec.ffn_width == 4 * spec.width ? Json() : Json(spec.ffn_width);
  config["n_positions"] = spec.max_sequence;
  config["vocab_size"] = spec.vocab;
  config["activation_function"] = spec.activation == Activation::kGeluTanh ? "gelu_new" : "gelu";
  config["layer_norm_epsilon"] = spec.norm_eps;
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) config[key] = spec.dropout;
  return config;
}

Json LlamaConfig(const ModelSpec& spec) {
  Json config;
  const bool qwen2 = spec.family == Family::kQwen2;
  config["architectures"] = {qwen2 ? "Qwen2ForCausalLM" : "LlamaForCausalLM"};
  config["model_type"] = std::string(Name(spec.family));
  config["num_hidden_layers"] = spec.layers;
  config["hidden_size"] = spec.width;
  config["num_attention_heads"] = spec.heads;
  config["num_key_value_heads"] = spec.kv_heads;
  config["head_dim"] = spec.head_width;
  config["intermediate_size"] = spec.ffn_width;
  config["max_position_embeddings"] = spec.max_sequence;
  config["vocab_size"] = spec.vocab;
  config["hidden_act"] = "silu";
  config["rms_norm_eps"] = spec.norm_eps;
  config["attention_dropout"] = spec.dropout;
  if (qwen2) {
    config["use_sliding_window"] = false;
  } else {
    config["attention_bias"] = spec.attention_bias;
    config["mlp_bias"] = false;
  }
  config["rope_theta"] = spec.rope_theta;
  Json& scaling = config["rope_scaling"];
  if (!spec.rope_scaling) return config;
  if (spec.rope_scaling->type == RopeScaling::Type::kLinear) {
    scaling["type"] = "linear";  // versions before 4.43 know no rope_type
    scaling["factor"] = spec.rope_scaling->factor;
    return config;
  }
  scaling["rope_type"] = "llama3";
  scaling["factor"] = spec.rope_scaling->factor;
  scaling["low_freq_factor"] = spec.rope_scaling->low_freq_factor;
  scaling["high_freq_factor"] = spec.rope_scaling->high_freq_factor;
  scaling["original_max_position_embeddings"] = spec.rope_scaling->original_sequence;
  return config;
}

const char* TorchName(formats::TensorType type) {
  switch (type) {
    case formats::TensorType::kF32:
      return "float32";
    case formats::TensorType::kBf16:
      return "bfloat16";
    case formats::TensorType::kF16:
      return "float16";
    default:
      throw InternalError("a type that no checkpoint's weights have");
  }
}

}  // namespace

ModelSpec SpecFromConfig(const JsonObject& config) {
  const std::string type = config.RequireString("model_type");
  if (config.Has("quantization_config")) {
    config.Fail("quantization_config", "quantised checkpoints are not supported");
  }
  ModelSpec spec;
  if (type == "gpt2") {
    spec = ReadGpt2(config);
  } else if (type == "llama") {
    spec = ReadLlama(config, Family::kLlama);
  } else if (type == "qwen2") {
    spec = ReadLlama(config, Family::kQwen2);
  } else {
    config.Fail("model_type", fmt::format("\"{}\" is not supported, only gpt2, llama and qwen2",
                                          formats::Printable(type)));
  }
  ReadTokens(config, spec);
  if (const auto problem = FindProblem(spec)) {
    config.Fail("model_type", fmt::format("these sizes make no {} model: {}: {}", type,
                                          problem->field, problem->reason));
  }
  return spec;
}

ModelSpec SpecFromHuggingFace(const std::string& folder) {
  const std::string file = (std::filesystem::path(folder) / "config.json").string();
  return SpecFromConfig(JsonObject::FromFile(file));
}

std::string ConfigJson(const ModelSpec& spec, formats::TensorType type) {
  Json config = spec.family == Family::kGpt2 ? Gpt2Config(spec) : LlamaConfig(spec);
  config["tie_word_embeddings"] = spec.tied;
  config["initializer_range"] = spec.init_std;
  WriteTokens(spec, config);
  config["torch_dtype"] = TorchName(type);
  return config.dump(2) + "\n";
}

}  // namespace plimsoll::models
