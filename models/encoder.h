// Transformer encoders: layers of models whose tokens all see one another (models/layers.h has the
// habits).
//
// B batch, T tokens, D width, H heads, F feed-forward width.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/settings.h"
#include "formats/json.h"
#include "models/layers.h"

namespace plimsoll::models {

struct EncoderSizes {
  int64_t layers, width, heads, ffn_width;
  double norm_eps;
  double init_std;
  Activation activation = Activation::kGeluErf;
  double drop_path = 0;  // of the last block's branches, in training (models/layers.h)
};
EncoderSizes EncoderSizesOf(const Settings& settings);

// Whether a branch reads the normalized stream (Xiong et al. 2020, "On Layer Normalization in the
// Transformer Architecture"), or the sum of stream and branch is normalized (Vaswani et al. 2017).
enum class NormPlace { kBefore, kAfter };

// x[B,T,D] → [B,T,D] through the blocks "block.0", …, each of attention and feed-forward network.
// `lengths`, i32[B]: the tokens of each row that are no padding; kNoTensor: there is none.
graph::Value Encoder(Layers& g, graph::Value x, const EncoderSizes& sizes, NormPlace place,
                     graph::Value lengths = graph::kNoTensor);

// Of the encoder's parameters, and what must divide among tensor-parallel ranks.
std::vector<Sharding> EncoderSharding(int64_t width);
std::vector<std::pair<std::string, int64_t>> EncoderSharedSizes(const EncoderSizes& sizes);

// The names of a block's parameters in files, each with * for its number.
struct EncoderNames {
  const char *query, *key, *value, *proj, *norm_1, *fc, *fc_out, *norm_2;
};
std::vector<CheckpointEntry> EncoderEntries(const EncoderNames& names, int64_t width);

// layers, width, heads, ffn_width, dropout and its places, norm_eps, activation, init_std.
// `norm_eps` has that default.
std::vector<Setting> EncoderSettings(double norm_eps);
// Fills in ffn_width. SettingError when the heads don't divide the width.
void CompleteEncoder(Settings& settings);

// A probability of dropout in config.json. UserError for one outside [0, 1).
double DropoutIn(const formats::JsonObject& config, const std::string& key, double fallback);

// transformers' members of config.json for these settings, except dropout and activation where a
// family has them otherwise. Settings that are given take precedence when they are read.
void ReadEncoder(const formats::JsonObject& config, Settings& settings);
void WriteEncoder(const Settings& settings, nlohmann::ordered_json& config);

}  // namespace plimsoll::models
