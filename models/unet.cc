// U-Net for segmentation of images or volumes. Ronneberger, Fischer and Brox 2015, "U-Net:
// Convolutional Networks for Biomedical Image Segmentation"; Çiçek et al. 2016, "3D U-Net"; in the
// form of nnU-Net (Isensee et al. 2021): convolutions with stride 2 on the way down, transposed
// ones on the way up, instance norms and leaky ReLUs.
//
// Each level down halves every side and doubles the channels. On the way up, a level concatenates
// the upsampled features with its own features from the way down, in this order.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/error.h"
#include "base/settings.h"
#include "models/family.h"
#include "models/layers.h"
#include "models/scores.h"
#include "ops/convolution/conv.h"
#include "ops/data_movement/concat_channels.h"
#include "ops/data_movement/views.h"
#include "ops/loss/confusion.h"
#include "ops/loss/dice.h"
#include "ops/norms/norms.h"

namespace plimsoll::models {
namespace {

using graph::DType;
using graph::Scope;
using graph::Shape;
using graph::Value;

constexpr double kNormEps = 1e-5;
constexpr double kSlope = 0.01;  // slope of leaky ReLUs

// Takes logits[B,…,K] of the pixels. With Head::kLoss, reads the input "labels", i32[B,…] (a
// negative label: the pixel does not count); the loss is that of ops/loss/dice.h, a mean over the
// samples. Outside of training, the logits are an output, too, and the confusion matrix of all
// pixels is a metric, with "dice" (models/scores.h).
Model::Outputs SegmentationHead(Layers& g, Value logits, Head head,
                                const ops::DiceOptions& options) {
  Model::Outputs outputs;
  if (head == Head::kLogits) {
    outputs.logits = logits;
    return outputs;
  }
  graph::Builder& builder = g.builder();
  const graph::Shape pixels = g.shape(logits).DropLast();
  const Value labels = g.Input("labels", DType::kInt32, pixels);
  outputs.loss = ops::DiceLoss(builder, logits, labels, g.SampleWeight(), options, "loss");
  if (g.training()) return outputs;
  outputs.logits = logits;
  const int64_t rows = pixels.elements(), classes = g.shape(logits).dim(-1);
  const Value by_row = ops::View(builder, logits, {rows, classes});
  const Value label_of_row = ops::View(builder, labels, {rows});
  outputs.metrics.push_back({.name = "confusion",
                             .sum = ops::Confuse(builder, by_row, label_of_row, "confuse").counts,
                             .rows = "label",
                             .columns = "prediction",
                             .derived = DiceScores(classes)});
  return outputs;
}

// The settings of the head: classes, and the weights of the loss.
std::vector<Setting> SegmentationSettings() {
  const auto weight = [](const std::string& name, const std::string& doc) {
    return Setting{.name = name,
                   .type = Setting::Type::kFloat,
                   .doc = doc,
                   .default_value = 1.0,
                   .min = 0,
                   .max = 1e6,
                   .with_loaded_weights = Setting::WithLoadedWeights::kYes};
  };
  const auto choice = [](const std::string& name, const std::string& doc, bool value) {
    return Setting{.name = name,
                   .type = Setting::Type::kBool,
                   .doc = doc,
                   .default_value = value,
                   .with_loaded_weights = Setting::WithLoadedWeights::kYes};
  };
  return {{.name = "classes",
           .doc = "Classes that are distinguished; class 0 is the background.",
           .derived = "as many as the `dataset.json` of the data names, or else required",
           .required = "give the number of classes, with the background",
           .min = 1,
           .max = 1e7,
           .with_loaded_weights = Setting::WithLoadedWeights::kYes},
          weight("dice_weight", "Weight of the Dice loss, as MONAI's `lambda_dice`."),
          weight("cross_entropy_weight", "Weight of the cross-entropy, as MONAI's `lambda_ce`."),
          choice("dice_background", "Whether the Dice loss counts the background.", true),
          choice("dice_squared",
                 "Whether the Dice loss's denominator sums squared probabilities (V-Net).", false)};
}

ops::DiceOptions SegmentationOptionsOf(const Settings& settings) {
  const int64_t classes = settings.Int("classes");
  if (classes < 2) {
    throw SettingError("classes", "1 class is the background alone; give at least 2");
  }
  if (classes > ops::kMostDiceClasses) {
    throw SettingError("classes", "the loss of segmentation distinguishes at most " +
                                      std::to_string(ops::kMostDiceClasses) + " classes");
  }
  const ops::DiceOptions options = {.include_background = settings.Bool("dice_background"),
                                    .squared_pred = settings.Bool("dice_squared"),
                                    .lambda_dice = settings.Float("dice_weight"),
                                    .lambda_ce = settings.Float("cross_entropy_weight")};
  if (options.lambda_dice == 0 && options.lambda_ce == 0) {
    throw SettingError("dice_weight",
                       "0 together with model.cross_entropy_weight: 0 leaves no loss");
  }
  return options;
}

class UNet final : public Model {
 public:
  explicit UNet(const Settings& settings) : Model("unet", settings) {
    const int64_t step = int64_t{1} << (settings.Int("levels") - 1);
    for (const char* side : {"image_depth", "image_height", "image_width"}) {
      const int64_t size = settings.Int(side);
      if (size % step == 0) continue;
      throw SettingError(side,
                         fmt::format("{} cannot be halved {}, once for each level below "
                                     "the first; give a multiple of {}, or fewer levels",
                                     size, Counted(settings.Int("levels") - 1, "time"), step));
    }
    int64_t pixels = settings.Int("image_height") * settings.Int("image_width") / (step * step);
    if (is_volume()) pixels *= settings.Int("image_depth") / step;
    if (pixels > 1) return;
    throw SettingError("levels",
                       "the lowest level would be a single pixel, which an instance norm "
                       "makes 0; give fewer levels");
  }

  std::string title() const override {
    return fmt::format("{} U-Net with {}", is_volume() ? "3-D" : "2-D",
                       Counted(settings().Int("levels"), "level"));
  }
  CheckpointTable checkpoint_table() const override;
  Misfit OnMisfit(const ParameterInfo& parameter) const override {
    return parameter.name.starts_with("head.") ? Misfit::kFresh : Misfit::kRefused;
  }
  std::map<std::string, int64_t> input_bounds() const override { return {{"labels", classes()}}; }
  int64_t classes() const override { return settings().Int("classes"); }
  void CheckBatch(const Batch& batch) const override {
    if (batch.sequence != 1) throw UserError("a U-Net reads images, which have no sequence");
  }

 protected:
  Outputs Forward(Layers& g, Head head) const override {
    const Settings& s = settings();
    const int64_t levels = s.Int("levels");
    std::vector<int64_t> sides = {s.Int("image_height"), s.Int("image_width")};
    if (is_volume()) sides.insert(sides.begin(), s.Int("image_depth"));
    std::vector<int64_t> dims = {g.batch().batch};
    dims.insert(dims.end(), sides.begin(), sides.end());
    dims.push_back(s.Int("channels"));
    Value x = g.Input("images", DType::kFloat32, Shape(std::span<const int64_t>(dims)));
    std::vector<Value> skips;
    for (int64_t level = 0; level < levels; ++level) {
      const Scope block(g.builder(), fmt::format("encoder.block.{}", level));
      x = Convolutions(g, x, FeaturesOf(level), level == 0 ? 1 : 2);
      skips.push_back(x);
    }
    skips.pop_back();
    for (int64_t level = levels - 1; level-- > 0;) {
      const Scope block(g.builder(), fmt::format("decoder.block.{}", levels - 2 - level));
      x = Upsampled(g, x, FeaturesOf(level));
      x = ops::ConcatChannels(g.builder(), x, skips.back(), "concat");
      skips.pop_back();
      x = Convolutions(g, x, FeaturesOf(level), 1);
    }
    const Value logits = Conv(g, "head", x, s.Int("classes"), {.kernel = 1, .bias = true});
    return SegmentationHead(g, logits, head, SegmentationOptionsOf(s));
  }

 private:
  struct ConvForm {
    int64_t kernel = 3, stride = 1;
    bool bias = false;
  };

  bool is_volume() const { return settings().Int("image_depth") > 0; }
  int64_t FeaturesOf(int64_t level) const {
    return std::min(settings().Int("features") << level, settings().Int("most_features"));
  }

  // A convolution's weight [outer, kernel …, inner], initialised as in nnU-Net: normal with
  // variance 2 / ((1 + slope²) · fan_in) (He et al. 2015, equation 15).
  Value Weight(Layers& g, int64_t outer, int64_t kernel, int64_t inner) const {
    const int rank = is_volume() ? 3 : 2;
    std::vector<int64_t> dims = {outer};
    dims.insert(dims.end(), static_cast<size_t>(rank), kernel);
    dims.push_back(inner);
    const double fan_in = std::pow(static_cast<double>(kernel), rank) * static_cast<double>(inner);
    return g.Parameter("weight", Shape(std::span<const int64_t>(dims)),
                       {Initializer::kNormal, std::sqrt(2 / ((1 + kSlope * kSlope) * fan_in))});
  }

  // A convolution padded by "same", as if the stride were 1.
  Value Conv(Layers& g, const std::string& name, Value x, int64_t outputs, ConvForm form) const {
    Value weight, bias = graph::kNoTensor;
    {
      const Scope scope(g.builder(), name);
      weight = Weight(g, outputs, form.kernel, g.shape(x).dim(-1));
      if (form.bias) bias = g.Parameter("bias", {outputs}, {Initializer::kZeros});
    }
    const int64_t stride = form.stride, pad = (form.kernel - 1) / 2;
    return ops::Conv(g.builder(), x, weight, bias,
                     {.stride = {stride, stride, stride}, .pad = {pad, pad, pad}}, name);
  }

  // A transposed convolution that doubles every side.
  Value Upsampled(Layers& g, Value x, int64_t outputs) const {
    Value weight, bias;
    {
      const Scope scope(g.builder(), "up");
      weight = Weight(g, g.shape(x).dim(-1), 2, outputs);
      bias = g.Parameter("bias", {outputs}, {Initializer::kZeros});
    }
    return ops::ConvTranspose(g.builder(), x, weight, bias, {.stride = {2, 2, 2}}, {0, 0, 0}, "up");
  }

  // Several times convolution, norm and leaky ReLU; the first convolution has the stride.
  // Convolutions have no bias, since the norm would subtract it.
  Value Convolutions(Layers& g, Value x, int64_t outputs, int64_t stride) const {
    for (int64_t i = 0; i < settings().Int("convolutions"); ++i) {
      x = Conv(g, fmt::format("conv_{}", i), x, outputs, {.stride = i == 0 ? stride : 1});
      const std::string name = fmt::format("norm_{}", i);
      Value weight, bias;
      {
        const Scope scope(g.builder(), name);
        weight = g.Parameter("weight", {outputs}, {Initializer::kOnes});
        bias = g.Parameter("bias", {outputs}, {Initializer::kZeros});
      }
      x = ops::InstanceNorm(g.builder(), x, weight, bias, kNormEps, {.relu = true, .slope = kSlope},
                            name);
    }
    return x;
  }
};

// nnU-Net's names. Kernels are stored [outputs, inputs, depth, height, width]; for transposed
// convolutions [inputs, outputs, …].
CheckpointTable UNet::checkpoint_table() const {
  const std::vector<int> order =
      is_volume() ? std::vector<int>{0, 4, 1, 2, 3} : std::vector<int>{0, 3, 1, 2};
  const int64_t levels = settings().Int("levels");
  CheckpointTable table;
  const auto add = [&](const std::string& own, const std::string& in_files, bool has_kernel) {
    table.entries.push_back({.parameter = own,
                             .tensors = {{in_files}},
                             .order = has_kernel ? order : std::vector<int>{}});
  };
  const auto convolutions = [&](const std::string& own, const std::string& in_files) {
    for (int64_t i = 0; i < settings().Int("convolutions"); ++i) {
      const std::string to = fmt::format("{}.convs.{}", in_files, i);
      add(fmt::format("{}.conv_{}.weight", own, i), to + ".conv.weight", true);
      add(fmt::format("{}.norm_{}.weight", own, i), to + ".norm.weight", false);
      add(fmt::format("{}.norm_{}.bias", own, i), to + ".norm.bias", false);
    }
  };
  convolutions("encoder.block.*", "encoder.stages.*.0");
  add("decoder.block.*.up.weight", "decoder.transpconvs.*.weight", true);
  add("decoder.block.*.up.bias", "decoder.transpconvs.*.bias", false);
  convolutions("decoder.block.*", "decoder.stages.*");
  const std::string head = fmt::format("decoder.seg_layers.{}.", levels - 2);
  add("head.weight", head + "weight", true);
  add("head.bias", head + "bias", false);
  return table;
}

Setting Side(const std::string& name, const std::string& doc) {
  return {.name = name,
          .doc = doc,
          .required = "give the size of what the model sees, in pixels",
          .min = 1,
          .max = 1e5,
          .with_loaded_weights = Setting::WithLoadedWeights::kYes};
}

std::vector<Setting> OwnSettings() {
  std::vector<Setting> rows = {
      {.name = "image_depth",
       .doc = "Depth of the volumes that the model sees, in voxels; 0: it sees images.",
       .default_value = int64_t{0},
       .min = 0,
       .max = 1e5,
       .with_loaded_weights = Setting::WithLoadedWeights::kYes},
      Side("image_height", "Height of the images or volumes that the model sees, in pixels."),
      Side("image_width", "Their width."),
      {.name = "channels",
       .doc = "Channels of the images.",
       .default_value = int64_t{1},
       .min = 1,
       .max = 1e5},
      {.name = "levels",
       .doc = "Resolutions: each level halves every side of the one above it.",
       .default_value = int64_t{5},
       .min = 2,
       .max = 12},
      {.name = "features",
       .doc = "Channels of the first level; each level has twice as many as the one above it.",
       .default_value = int64_t{32},
       .min = 1,
       .max = 1e5},
      {.name = "most_features",
       .doc = "The most channels of a level.",
       .default_value = int64_t{320},
       .min = 1,
       .max = 1e6},
      {.name = "convolutions",
       .doc = "Convolutions of a level, on the way down and on the way up.",
       .default_value = int64_t{2},
       .min = 1,
       .max = 100}};
  for (Setting& row : SegmentationSettings()) rows.push_back(std::move(row));
  return rows;
}

const FamilyRegistration kFamily({
    .name = "unet",
    .settings = OwnSettings(),
    .make = [](const Settings& s) { return std::make_unique<UNet>(s); },
});

}  // namespace
}  // namespace plimsoll::models
