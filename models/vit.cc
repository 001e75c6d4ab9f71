// Vision transformer. Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words: Transformers for
// Image Recognition at Scale": an image is a row of patches, with a token before them whose last
// state is classified.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "models/classifier.h"
#include "models/encoder.h"
#include "models/family.h"
#include "models/language_model.h"
#include "models/vision_layers.h"
#include "ops/linear.h"
#include "ops/tokens/patches.h"
#include "ops/tokens/tokens.h"
#include "ops/views.h"

namespace plimsoll::models {
namespace {

using formats::JsonObject;
using graph::Scope;
using graph::Value;

constexpr const char* kName = "vit";

class Vit final : public Model {
 public:
  explicit Vit(const Settings& settings)
      : Model(kName, settings), sizes_(EncoderSizesOf(settings)) {}

  double dropout() const override { return settings().Float("dropout"); }
  void CheckBatch(const Batch& batch) const override {
    if (batch.sequence != 1) throw UserError("a ViT reads images, which have no sequence");
  }
  std::vector<Sharding> sharding() const override { return EncoderSharding(sizes_.width); }
  std::vector<std::pair<std::string, int64_t>> shared_sizes() const override {
    return EncoderSharedSizes(sizes_);
  }
  CheckpointTable checkpoint_table() const override;
  void WriteConfig(nlohmann::ordered_json& config) const override;

 protected:
  Outputs Forward(Layers& g, Head head) const override {
    const Settings& s = settings();
    const Value images = Images(g, s.Int("image_size"), s.Int("image_size"), s.Int("channels"));
    Value x = Dropout(g, "embed.dropout", Embed(g, images));
    x = Encoder(g, x, sizes_, NormPlace::kBefore);
    // The other tokens' last states are read by nothing.
    x = ops::SliceTokens(g.builder(), x, 0, 1, "class_token");
    x = ops::View(g.builder(), x, {g.batch().batch, sizes_.width});
    x = LayerNorm(g, "norm", x, sizes_.norm_eps);
    return ClassifierHead(g, "head", x, head,
                          {.classes = s.Int("classes"),
                           .label_smoothing = s.Float("label_smoothing"),
                           .weight = {Initializer::kNormal, sizes_.init_std},
                           .bias = {Initializer::kZeros}});
  }

 private:
  // images [B,S,S,C] → [B,T,D] with T = 1 + (S/p)².
  Value Embed(Layers& g, Value images) const {
    const Scope scope(g.builder(), "embed");
    const int64_t p = settings().Int("patch"), channels = settings().Int("channels");
    const int64_t width = sizes_.width, side = settings().Int("image_size") / p;
    const Initializer normal{Initializer::kNormal, sizes_.init_std};
    const Value weight = g.Parameter("patch.weight", {width, p, p, channels}, normal);
    const Value bias = g.Parameter("patch.bias", {width}, {Initializer::kZeros});
    const Value token = g.Parameter("class.weight", {width}, normal);
    const Value position = g.Parameter("position.weight", {1 + side * side, width}, normal);
    graph::Builder& builder = g.builder();
    const Value patches =
        ops::Linear(builder, ops::Patches(builder, images, p),
                    ops::View(builder, weight, {width, p * p * channels}), bias, "patch");
    return ops::PrependToken(builder, patches, token, position);
  }

  EncoderSizes sizes_;
};

CheckpointTable Vit::checkpoint_table() const {
  CheckpointTable table;
  table.prefix = "vit.";
  table.entries = EncoderEntries({.query = "encoder.layer.*.attention.attention.query",
                                  .key = "encoder.layer.*.attention.attention.key",
                                  .value = "encoder.layer.*.attention.attention.value",
                                  .proj = "encoder.layer.*.attention.output.dense",
                                  .norm_1 = "encoder.layer.*.layernorm_before",
                                  .fc = "encoder.layer.*.intermediate.dense",
                                  .fc_out = "encoder.layer.*.output.dense",
                                  .norm_2 = "encoder.layer.*.layernorm_after"},
                                 sizes_.width);
  const std::string embeddings = "embeddings.";
  table.entries.insert(
      table.entries.end(),
      {{"embed.patch.weight", {{embeddings + "patch_embeddings.projection.weight"}}},
       {"embed.patch.bias", {{embeddings + "patch_embeddings.projection.bias"}}},
       {"embed.class.weight", {{embeddings + "cls_token"}}},
       {"embed.position.weight", {{embeddings + "position_embeddings"}}},
       {"norm.weight", {{"layernorm.weight"}}},
       {"norm.bias", {{"layernorm.bias"}}},
       {"head.weight", {{"classifier.weight"}}},
       {"head.bias", {{"classifier.bias"}}}});
  return table;
}

void Vit::WriteConfig(nlohmann::ordered_json& config) const {
  const Settings& s = settings();
  config["architectures"] = {"ViTForImageClassification"};
  config["model_type"] = kName;
  WriteEncoder(s, config);
  config["image_size"] = s.Int("image_size");
  config["patch_size"] = s.Int("patch");
  config["num_channels"] = s.Int("channels");
  config["qkv_bias"] = true;
  WriteClasses(s.Int("classes"), config);
}

std::unique_ptr<Model> ReadVit(const JsonObject& config, Settings& s) {
  RequireSwitch(config, "qkv_bias", true);
  ReadEncoder(config, s);
  s.Derive("image_size", SizeIn(config, "image_size", 224));
  s.Derive("patch", SizeIn(config, "patch_size", 16));
  s.Derive("channels", SizeIn(config, "num_channels", 3));
  s.Derive("classes", ReadClasses(config));
  s.Derive("label_smoothing", 0.0);
  Complete(*FindFamily(kName), s);
  return std::make_unique<Vit>(s);
}

void CompleteVit(Settings& s) {
  CompleteEncoder(s);
  const int64_t size = s.Int("image_size"), patch = s.Int("patch");
  if (size % patch == 0) return;
  throw SettingError("patch", fmt::format("patches of {} do not divide images of model.image_size "
                                          "{}{}; choose another size of either",
                                          patch, size, s.At("image_size")));
}

std::vector<Setting> OwnSettings() {
  std::vector<Setting> rows = EncoderSettings(1e-12);
  rows.push_back({.name = "patch",
                  .doc = "Height and width of a patch, in pixels; divides `image_size`.",
                  .default_value = int64_t{16},
                  .min = 1,
                  .max = 1e5});
  for (Setting& row : ImageSettings()) rows.push_back(std::move(row));
  for (Setting& row : ClassifierSettings()) rows.push_back(std::move(row));
  return rows;
}

const FamilyRegistration kFamily({
    .name = kName,
    .settings = OwnSettings(),
    .complete = &CompleteVit,
    .make = [](const Settings& s) { return std::make_unique<Vit>(s); },
    .read_config = &ReadVit,
});

}  // namespace
}  // namespace plimsoll::models
