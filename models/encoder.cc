#include "models/encoder.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "models/language_model.h"
#include "models/language_settings.h"

namespace plimsoll::models {
namespace {

using formats::JsonObject;
using graph::Scope;
using graph::Value;

// The rate of embeddings is hidden_dropout, as in transformers.
std::vector<std::string> PlacesOfDropout() { return {"attention_dropout", "hidden_dropout"}; }

Value AttentionBranch(Layers& g, const EncoderSizes& s, Value x, Value lengths) {
  const Scope scope(g.builder(), "attn");
  Value a = Linear(g, "qkv", x, 3 * s.width, {.init_std = s.init_std});
  a = Attention(g, a, {.heads = s.heads, .kv_heads = s.heads},
                {.causal = false, .lengths = lengths});
  a = Linear(g, "proj", a, s.width, {.init_std = s.init_std});
  return Dropout(g, "dropout", a, g.dropout().hidden);
}

Value FeedForwardBranch(Layers& g, const EncoderSizes& s, Value x) {
  const Scope scope(g.builder(), "mlp");
  Value m = Linear(g, "fc", x, s.ffn_width, {.init_std = s.init_std});
  m = Gelu(g, m, s.activation);
  m = Linear(g, "proj", m, s.width, {.init_std = s.init_std});
  return Dropout(g, "dropout", m, g.dropout().hidden);
}

// `drop_path`: the probability for this block.
Value Block(Layers& g, const EncoderSizes& s, NormPlace place, double drop_path, Value x,
            Value lengths) {
  const auto norm = [&](const char* name, Value of) { return LayerNorm(g, name, of, s.norm_eps); };
  const auto add = [&](const std::string& number, Value to, Value branch) {
    return Add(g, "residual_" + number, to, DropPath(g, "drop_path_" + number, branch, drop_path));
  };
  if (place == NormPlace::kBefore) {
    x = add("1", x, AttentionBranch(g, s, norm("norm_1", x), lengths));
    return add("2", x, FeedForwardBranch(g, s, norm("norm_2", x)));
  }
  x = norm("norm_1", add("1", x, AttentionBranch(g, s, x, lengths)));
  return norm("norm_2", add("2", x, FeedForwardBranch(g, s, x)));
}

}  // namespace

EncoderSizes EncoderSizesOf(const Settings& s) {
  return {.layers = s.Int("layers"),
          .width = s.Int("width"),
          .heads = s.Int("heads"),
          .ffn_width = s.Int("ffn_width"),
          .norm_eps = s.Float("norm_eps"),
          .init_std = s.Float("init_std"),
          .activation =
              s.Text("activation") == "gelu_tanh" ? Activation::kGeluTanh : Activation::kGeluErf};
}

Value Encoder(Layers& g, Value x, const EncoderSizes& sizes, NormPlace place, Value lengths) {
  for (int64_t layer = 0; layer < sizes.layers; ++layer) {
    const Scope scope(g.builder(), "block." + std::to_string(layer));
    x = Block(g, sizes, place, DropPathOf(sizes.drop_path, layer, sizes.layers), x, lengths);
  }
  return x;
}

std::vector<Sharding> EncoderSharding(int64_t width) {
  return {
      {"block.*.attn.qkv.weight", Sharding::kRows, {width, width, width}},
      {"block.*.attn.qkv.bias", Sharding::kRows, {width, width, width}},
      {"block.*.attn.proj.weight", Sharding::kColumns},
      {"block.*.mlp.fc.weight", Sharding::kRows},
      {"block.*.mlp.fc.bias", Sharding::kRows},
      {"block.*.mlp.proj.weight", Sharding::kColumns},
  };
}

std::vector<std::pair<std::string, int64_t>> EncoderSharedSizes(const EncoderSizes& sizes) {
  return {{"heads", sizes.heads}, {"ffn_width", sizes.ffn_width}};
}

std::vector<CheckpointEntry> EncoderEntries(const EncoderNames& names, int64_t width) {
  std::vector<CheckpointEntry> entries;
  for (const char* kind : {".weight", ".bias"}) {
    const auto add = [&](const char* parameter, std::vector<const char*> stored) {
      CheckpointEntry entry{std::string("block.*.") + parameter + kind, {}};
      for (const char* name : stored) {
        entry.tensors.push_back({std::string(name) + kind, stored.size() > 1 ? width : 0});
      }
      entries.push_back(std::move(entry));
    };
    add("attn.qkv", {names.query, names.key, names.value});
    add("attn.proj", {names.proj});
    add("norm_1", {names.norm_1});
    add("mlp.fc", {names.fc});
    add("mlp.proj", {names.fc_out});
    add("norm_2", {names.norm_2});
  }
  return entries;
}

std::vector<Setting> EncoderSettings(double norm_eps) {
  return {LanguageSetting("layers"),
          LanguageSetting("width"),
          LanguageSetting("heads"),
          LanguageSetting("ffn_width", "4 `width`"),
          LanguageSetting("dropout"),
          LanguageSetting("attention_dropout"),
          LanguageSetting("hidden_dropout"),
          WithDefault(LanguageSetting("activation"), std::string("gelu_erf")),
          WithDefault(LanguageSetting("norm_eps"), norm_eps),
          LanguageSetting("init_std")};
}

void CompleteEncoder(Settings& s) {
  CompleteDropout(PlacesOfDropout(), s);
  if (!s.Has("ffn_width")) s.Set("ffn_width", 4 * s.Int("width"));
  const int64_t width = s.Int("width"), heads = s.Int("heads");
  if (width % heads == 0) return;
  throw SettingError("heads", fmt::format("{} heads do not divide model.width {}{}; use {}", heads,
                                          width, s.At("width"), NearestDivisors(width, heads)));
}

double DropoutIn(const JsonObject& config, const std::string& key, double fallback) {
  const double rate = config.GetFloat(key, fallback);
  if (rate >= 0 && rate < 1) return rate;
  config.Fail(key, fmt::format("must be from 0 to below 1, not {}", rate));
}

void ReadEncoder(const JsonObject& config, Settings& s) {
  s.Derive("layers", SizeIn(config, "num_hidden_layers"));
  s.Derive("width", SizeIn(config, "hidden_size"));
  s.Derive("heads", SizeIn(config, "num_attention_heads"));
  s.Derive("ffn_width", SizeIn(config, "intermediate_size"));
  s.Derive("norm_eps", config.GetFloat("layer_norm_eps", 1e-12));
  s.Derive("init_std", config.GetFloat("initializer_range", 0.02));
  const std::string activation = config.GetString("hidden_act", "gelu");
  if (activation != "gelu" && activation != "gelu_new" && activation != "gelu_pytorch_tanh") {
    config.Fail("hidden_act", fmt::format("\"{}\" is not supported, only gelu and gelu_new",
                                          formats::Printable(activation)));
  }
  s.Derive("activation", std::string(activation == "gelu" ? "gelu_erf" : "gelu_tanh"));
  DropoutRates dropout = DropoutIn(config, "hidden_dropout_prob", 0.1);
  dropout.attention = DropoutIn(config, "attention_probs_dropout_prob", 0.1);
  DeriveDropout(PlacesOfDropout(), dropout, s);
}

void WriteEncoder(const Settings& s, nlohmann::ordered_json& config) {
  config["hidden_size"] = s.Int("width");
  config["num_hidden_layers"] = s.Int("layers");
  config["num_attention_heads"] = s.Int("heads");
  config["intermediate_size"] = s.Int("ffn_width");
  config["hidden_act"] = s.Text("activation") == "gelu_tanh" ? "gelu_new" : "gelu";
  config["hidden_dropout_prob"] = s.Float("hidden_dropout");
  config["attention_probs_dropout_prob"] = s.Float("attention_dropout");
  config["layer_norm_eps"] = s.Float("norm_eps");
  config["initializer_range"] = s.Float("init_std");
}

}  // namespace plimsoll::models
