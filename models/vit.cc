// Vision transformer. Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words: Transformers for
// Image Recognition at Scale": an image becomes a sequence of patches after a class token, whose
// last state is classified.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "models/classifier.h"
#include "models/config_keys.h"
#include "models/encoder.h"
#include "models/family.h"
#include "models/language_model.h"
#include "models/vision_layers.h"
#include "ops/data_movement/views.h"
#include "ops/linear/linear.h"
#include "ops/tokens/tokens.h"

namespace plimsoll::models {
namespace {

using formats::JsonObject;
using graph::Scope;
using graph::Value;

constexpr const char* kName = "vit";
constexpr const char* kPosition = "embed.position.weight";

// The four elements of a row of `size`, and their weights, for bicubic interpolation at `place`:
// Keys 1981, "Cubic Convolution Interpolation for Digital Image Processing", with a = −¾, as in
// PyTorch. Beyond the ends, the outermost elements are repeated.
struct CubicTaps {
  CubicTaps(double place, int64_t size) {
    constexpr double a = -0.75;
    const double floor = std::floor(place);
    for (int i = 0; i < 4; ++i) {
      const double x = std::abs(place - (floor - 1 + i));
      weights[i] =
          x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
      indices[i] = std::clamp<int64_t>(static_cast<int64_t>(floor) - 1 + i, 0, size - 1);
    }
  }

  double weights[4];
  int64_t indices[4];
};

// Resizes a square of from_side² vectors to to_side², by bicubic interpolation without smoothing.
void Resize(const float* from, int64_t from_side, int64_t to_side, int64_t width, float* to) {
  const double step = static_cast<double>(from_side) / static_cast<double>(to_side);
  const auto taps = [&](int64_t i) {
    return CubicTaps((static_cast<double>(i) + 0.5) * step - 0.5, from_side);
  };
  for (int64_t y = 0; y < to_side; ++y) {
    const CubicTaps rows = taps(y);
    for (int64_t x = 0; x < to_side; ++x) {
      const CubicTaps columns = taps(x);
      for (int64_t d = 0; d < width; ++d) {
        double sum = 0;
        for (int i = 0; i < 4; ++i) {
          for (int j = 0; j < 4; ++j) {
            const int64_t at = rows.indices[i] * from_side + columns.indices[j];
            sum += rows.weights[i] * columns.weights[j] * from[at * width + d];
          }
        }
        to[(y * to_side + x) * width + d] = static_cast<float>(sum);
      }
    }
  }
}

class Vit final : public Model {
 public:
  explicit Vit(const Settings& settings)
      : Model(kName, settings), sizes_(EncoderSizesOf(settings)) {
    sizes_.drop_path = settings.Float("drop_path");
  }

  DropoutRates dropout() const override { return DropoutRatesOf(settings()); }
  void CheckBatch(const Batch& batch) const override {
    if (batch.sequence != 1) throw UserError("a ViT reads images, which have no sequence");
  }
  std::vector<Sharding> sharding() const override { return EncoderSharding(sizes_.width); }
  bool shares_tokens() const override { return false; }  // the class token is not a patch
  std::vector<std::pair<std::string, int64_t>> shared_sizes() const override {
    return EncoderSharedSizes(sizes_);
  }
  CheckpointTable checkpoint_table() const override;
  Misfit OnMisfit(const ParameterInfo& parameter) const override {
    if (parameter.name == kPosition) return Misfit::kFitted;
    return parameter.name.starts_with("head.") ? Misfit::kFresh : Misfit::kRefused;
  }
  void Fit(const ParameterInfo& parameter, std::span<const int64_t> shape,
           std::span<const float> stored, float* to) const override;
  std::map<std::string, int64_t> input_bounds() const override { return LabelBounds(settings()); }
  std::optional<ProblemType> problem_type() const override { return ProblemTypeOf(settings()); }
  int64_t classes() const override { return settings().Int("classes"); }
  void WriteConfig(nlohmann::ordered_json& config) const override;

 protected:
  Outputs Forward(Layers& g, Head head) const override {
    const Settings& s = settings();
    const Value images = Images(g, s.Int("image_size"), s.Int("image_size"), s.Int("channels"));
    Value x = Dropout(g, "embed.dropout", Embed(g, images), g.dropout().embedding);
    x = Encoder(g, x, sizes_, NormPlace::kBefore);
    // No later node reads the last states of the other tokens.
    x = ops::SliceTokens(g.builder(), x, 0, 1, "class_token");
    x = ops::View(g.builder(), x, {g.batch().batch, sizes_.width});
    x = LayerNorm(g, "norm", x, sizes_.norm_eps);
    return ClassifierHead(
        g, "head", x, head,
        ClassifierOptionsOf(s, {Initializer::kNormal, sizes_.init_std}, {Initializer::kZeros}));
  }

 private:
  // Maps images [B,S,S,C] to tokens [B,T,D] with T = 1 + (S/p)².
  Value Embed(Layers& g, Value images) const {
    const Scope scope(g.builder(), "embed");
    const int64_t p = settings().Int("patch"), channels = settings().Int("channels");
    const int64_t width = sizes_.width, side = settings().Int("image_size") / p;
    const Initializer normal{Initializer::kNormal, sizes_.init_std};
    const Value weight = g.Parameter("patch.weight", {width, p * p * channels}, normal);
    const Value bias = g.Parameter("patch.bias", {width}, {Initializer::kZeros});
    const Value token = g.Parameter("class.weight", {width}, normal);
    const Value position = g.Parameter("position.weight", {1 + side * side, width}, normal);
    graph::Builder& builder = g.builder();
    const Value patches =
        ops::Linear(builder, ops::Patches(builder, images, p), weight, bias, "patch");
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
  const int64_t patch = settings().Int("patch");
  table.entries.insert(
      table.entries.end(),
      {{.parameter = "embed.patch.weight",  // stored as [width, channels, height, width]
        .tensors = {{embeddings + "patch_embeddings.projection.weight"}},
        .order = {0, 3, 1, 2},
        .view = {sizes_.width, patch, patch, settings().Int("channels")}},
       {"embed.patch.bias", {{embeddings + "patch_embeddings.projection.bias"}}},
       {.parameter = "embed.class.weight",
        .tensors = {{embeddings + "cls_token"}},
        .leading_ones = 2},
       {.parameter = "embed.position.weight",
        .tensors = {{embeddings + "position_embeddings"}},
        .leading_ones = 1},
       {"norm.weight", {{"layernorm.weight"}}},
       {"norm.bias", {{"layernorm.bias"}}},
       {.parameter = "head.weight", .tensors = {{"classifier.weight"}}, .bare = true},
       {.parameter = "head.bias", .tensors = {{"classifier.bias"}}, .bare = true}});
  table.ignored = {"pooler.dense.weight", "pooler.dense.bias"};
  return table;
}

// Keeps the class token's position, and resizes the positions of the patches like an image.
void Vit::Fit(const ParameterInfo& parameter, std::span<const int64_t> shape,
              std::span<const float> stored, float* to) const {
  const int64_t width = parameter.shape.dim(1);
  const int64_t patches =
      shape.size() == 3 && shape[0] == 1 && shape[2] == width ? shape[1] - 1 : 0;
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(patches))));
  if (patches <= 0 || side * side != patches) {
    throw UserError(
        fmt::format("the positions of a checkpoint are not those of a class token and a "
                    "square of patches with {} values each",
                    width));
  }
  std::copy_n(stored.data(), width, to);
  Resize(stored.data() + width, side, settings().Int("image_size") / settings().Int("patch"), width,
         to + width);
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
  WriteClassifier(s, config);
}

std::unique_ptr<Model> ReadVit(const JsonObject& config, Settings& s) {
  RequireSwitch(config, "qkv_bias", true);
  ReadEncoder(config, s);
  s.Derive("image_size", SizeIn(config, "image_size", 224));
  s.Derive("patch", SizeIn(config, "patch_size", 16));
  s.Derive("channels", SizeIn(config, "num_channels", 3));
  ReadClassifier(config, s);
  s.Derive("label_smoothing", 0.0);
  s.Derive("drop_path", 0.0);
  s.Derive("mixed_labels", false);
  Complete(*FindFamily(kName), s);
  return std::make_unique<Vit>(s);
}

void CompleteVit(Settings& s) {
  CompleteEncoder(s);
  CompleteClassifier(s);
  const int64_t size = s.Int("image_size"), patch = s.Int("patch");
  if (size % patch == 0) return;
  throw SettingError("patch", fmt::format("patches of {} do not divide images of model.image_size "
                                          "{}{}; choose another size of either",
                                          patch, size, s.At("image_size")));
}

std::vector<formats::KeyRule> VitKeys() {
  using formats::Harmless;
  using formats::Read;
  return Joined(
      Joined(EncoderKeys(), ClassifierKeys()),
      {Read("image_size"), Read("patch_size"), Read("num_channels"), Read("qkv_bias"),
       Harmless("encoder_stride", "a decoder of masked pictures has it"),
       Harmless("pooler_output_size", "a classifier reads the class token without a pooler"),
       Harmless("pooler_act", "a classifier reads the class token without a pooler")});
}

std::vector<Setting> OwnSettings() {
  std::vector<Setting> rows = EncoderSettings(1e-12);
  rows.push_back({.name = "patch",
                  .doc = "Height and width of a patch, in pixels; divides `image_size`.",
                  .default_value = int64_t{16},
                  .min = 1,
                  .max = 1e5});
  rows.push_back(DropPathSetting());
  for (Setting& row : ImageSettings()) rows.push_back(std::move(row));
  for (Setting& row : ClassifierSettings()) rows.push_back(std::move(row));
  rows.push_back(MixedLabelsSetting());
  return rows;
}

const FamilyRegistration kFamily({
    .name = kName,
    .settings = OwnSettings(),
    .complete = &CompleteVit,
    .make = [](const Settings& s) { return std::make_unique<Vit>(s); },
    .read_config = &ReadVit,
    .config_keys = VitKeys(),
});

}  // namespace
}  // namespace plimsoll::models
