// Transformer encoders: layers of models with bidirectional attention (models/layers.h has the
// conventions).
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
  double drop_path = 0;  // probability for the last block's branches, in training (models/layers.h)
};
EncoderSizes EncoderSizesOf(const Settings& settings);

// Whether a branch reads the normalized stream (Xiong et al. 2020, "On Layer Normalization in the
// Transformer Architecture"), or the sum of stream and branch is normalized (Vaswani et al. 2017).
enum class NormPlace { kBefore, kAfter };

// Applies the blocks "block.0", … to x[B,T,D]; each has attention and a feed-forward network.
// `lengths`, i32[B]: the number of tokens in each row that are not padding; kNoTensor: no row is
// padded.
graph::Value Encoder(Layers& g, graph::Value x, const EncoderSizes& sizes, NormPlace place,
                     graph::Value lengths = graph::kNoTensor);

// The sharding of the encoder's parameters, and the sizes that must be divisible by the number of
// tensor-parallel ranks.
std::vector<Sharding> EncoderSharding(int64_t width);
std::vector<std::pair<std::string, int64_t>> EncoderSharedSizes(const EncoderSizes& sizes);

// The names of a block's parameters in files, with * in place of the block's number.
struct EncoderNames {
  const char *query, *key, *value, *proj, *norm_1, *fc, *fc_out, *norm_2;
};
std::vector<CheckpointEntry> EncoderEntries(const EncoderNames& names, int64_t width);

// The settings layers, width, heads, ffn_width, dropout and its places, norm_eps, activation and
// init_std. The parameter is the default of `norm_eps`.
std::vector<Setting> EncoderSettings(double norm_eps);
// Fills in ffn_width. Throws a SettingError when the width is not divisible by the number of heads.
void CompleteEncoder(Settings& settings);

// Reads a dropout probability from config.json. Throws a UserError for a value outside [0, 1).
double DropoutIn(const formats::JsonObject& config, const std::string& key, double fallback);

// Read or write transformers' keys in config.json for these settings. Dropout and activation are
// left out for families that have other keys for them. ReadEncoder does not change settings that
// are already given.
void ReadEncoder(const formats::JsonObject& config, Settings& settings);
void WriteEncoder(const Settings& settings, nlohmann::ordered_json& config);

}  // namespace plimsoll::models
