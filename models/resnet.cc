// ResNet. He et al. 2016, "Deep Residual Learning for Image Recognition": for large images (table
// 1: 18, 34, 50, 101 or 152 layers; the stride of a bottleneck is in its 3×3 convolution, as in
// torchvision) and for small images (section 4.2: 6n + 2 layers).
//
// The small ones have two variants of shortcuts without parameters, since the paper does not say
// where the new channels are: zero channels after the old ones (`A`), or half of them on either
// side (`A_centered`). The second is common in PyTorch programs for CIFAR: F.pad by planes // 4 on
// both sides. Weights for one variant are wrong for the other, although their names and shapes are
// equal.
#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "models/classifier.h"
#include "models/family.h"
#include "models/vision_layers.h"
#include "ops/data_movement/subsample.h"
#include "ops/elementwise/activations.h"
#include "ops/pooling/pooling.h"

namespace plimsoll::models {
namespace {

using graph::Scope;
using graph::Value;

// The architecture that a depth means.
struct Form {
  // For small images: a 3×3 stem without pooling, three stages from 16 channels.
  bool small = false;
  bool bottleneck = false;      // blocks of 1×1, 3×3, 1×1 with four times as many channels
  std::vector<int64_t> blocks;  // the number of blocks in each stage
};

const std::map<int64_t, Form>& LargeForms() {
  static const std::map<int64_t, Form> forms = {
      {18, {false, false, {2, 2, 2, 2}}},  {34, {false, false, {3, 4, 6, 3}}},
      {50, {false, true, {3, 4, 6, 3}}},   {101, {false, true, {3, 4, 23, 3}}},
      {152, {false, true, {3, 8, 36, 3}}},
  };
  return forms;
}

Form FormOf(int64_t depth) {
  const auto large = LargeForms().find(depth);
  if (large != LargeForms().end()) return large->second;
  if (depth < 8 || (depth - 2) % 6 != 0) {
    throw SettingError("depth", fmt::format("{} is no ResNet: for large images there are 18, 34, "
                                            "50, 101 and 152, for small ones 6n + 2 (20, 32, 44, "
                                            "56, 110)",
                                            depth));
  }
  const int64_t n = (depth - 2) / 6;
  return {true, false, {n, n, n}};
}

// The shortcut options of section 4.1.
enum class ShortcutForm {
  kZerosBehind,  // A: zero channels after the old ones
  kZerosAround,  // A_centered: zero channels on either side
  kProjection,   // B: a projection
};

ShortcutForm ShortcutFormOf(const std::string& name) {
  if (name == "A") return ShortcutForm::kZerosBehind;
  if (name == "A_centered") return ShortcutForm::kZerosAround;
  return ShortcutForm::kProjection;
}

bool IsFrozen(const Settings& settings) { return settings.Text("norms") == "frozen"; }

class ResNet final : public Model {
 public:
  explicit ResNet(const Settings& settings)
      : Model("resnet", settings),
        form_(FormOf(settings.Int("depth"))),
        norm_({.group_samples = settings.Int("norm_samples"), .frozen = IsFrozen(settings)}),
        shortcut_(ShortcutFormOf(settings.Text("shortcut"))) {
    if (shortcut_ != ShortcutForm::kProjection && !form_.small) {
      throw SettingError("shortcut",
                         fmt::format("{} is there for small images, with 6n + 2 layers; with {} "
                                     "layers use B",
                                     settings.Text("shortcut"), settings.Int("depth")));
    }
  }

  std::string title() const override { return fmt::format("ResNet-{}", settings().Int("depth")); }
  CheckpointTable checkpoint_table() const override;
  Misfit OnMisfit(const ParameterInfo& parameter) const override {
    return parameter.name.starts_with("head.") ? Misfit::kFresh : Misfit::kRefused;
  }
  SampleCoupling sample_coupling() const override {
    if (norm_.frozen) return SampleCoupling::Independent();
    return norm_.group_samples == 0 ? SampleCoupling::WholeMicroBatch()
                                    : SampleCoupling::Groups(norm_.group_samples);
  }
  std::map<std::string, int64_t> input_bounds() const override { return LabelBounds(settings()); }
  std::optional<ProblemType> problem_type() const override { return ProblemTypeOf(settings()); }
  int64_t classes() const override { return settings().Int("classes"); }
  void CheckBatch(const Batch& batch) const override {
    if (batch.sequence != 1) throw UserError("a ResNet reads images, which have no sequence");
  }
  void WriteConfig(nlohmann::ordered_json& config) const override {
    Model::WriteConfig(config);
    if (form_.small) return;
    // timm's names for the two keys.
    config["architecture"] = fmt::format("resnet{}", settings().Int("depth"));
    config["num_classes"] = settings().Int("classes");
  }

 protected:
  Outputs Forward(Layers& g, Head head) const override {
    const Settings& s = settings();
    Value x = Images(g, s.Int("image_size"), s.Int("image_size"), s.Int("channels"));
    x = Stem(g, x);
    const int64_t blocks = std::reduce(form_.blocks.begin(), form_.blocks.end());
    int64_t block = 0;
    for (size_t stage = 0; stage < form_.blocks.size(); ++stage) {
      const Scope in_stage(g.builder(), "stage." + std::to_string(stage));
      for (int64_t i = 0; i < form_.blocks[stage]; ++i) {
        const Scope in_block(g.builder(), "block." + std::to_string(i));
        x = Block(g, x, ChannelsOf(stage), stage > 0 && i == 0 ? 2 : 1,
                  DropPathOf(s.Float("drop_path"), block++, blocks));
      }
    }
    CountNormBatches(g, static_cast<int64_t>(NormsInFiles().size()), norm_);
    x = ops::GlobalAvgPool(g.builder(), x, "pool");
    const Initializer uniform = UniformByInputs(g.shape(x).dim(-1));
    return ClassifierHead(g, "head", x, head, ClassifierOptionsOf(s, uniform, uniform));
  }

 private:
  // The channels of a stage's 3×3 convolutions.
  int64_t ChannelsOf(size_t stage) const { return (form_.small ? 16 : 64) << stage; }
  int64_t ConvolutionsOfBlock() const { return form_.bottleneck ? 3 : 2; }
  // Whether the first block of a stage has a projection.
  bool Projects(size_t stage) const {
    return stage == 0 ? form_.bottleneck : shortcut_ == ShortcutForm::kProjection;
  }
  // The names of the batch norms in torchvision.
  std::vector<std::string> NormsInFiles() const;

  Value ConvNorm(Layers& g, const std::string& number, Value x, int64_t channels,
                 ConvOptions options) const {
    return Normalised(g, number, x, channels, options, /*relu=*/false);
  }

  Value ConvNormRelu(Layers& g, const std::string& number, Value x, int64_t channels,
                     ConvOptions options) const {
    return Normalised(g, number, x, channels, options, /*relu=*/true);
  }

  Value Normalised(Layers& g, const std::string& number, Value x, int64_t channels,
                   ConvOptions options, bool relu) const {
    BatchNormOptions norm = norm_;
    norm.relu = relu;
    return BatchNorm(g, "norm" + number, Conv(g, "conv" + number, x, channels, options), norm);
  }

  Value Stem(Layers& g, Value x) const {
    const Scope scope(g.builder(), "stem");
    if (form_.small) return ConvNormRelu(g, "", x, 16, {.kernel = 3});
    x = ConvNormRelu(g, "", x, 64, {.kernel = 7, .stride = 2});
    return ops::MaxPool2d(g.builder(), x, ops::Pool2d::Square(3, 2, 1), "pool");
  }

  // Computes ReLU(shortcut(x) + branch(x)).
  Value Block(Layers& g, Value x, int64_t channels, int64_t stride, double drop_path) const {
    const int64_t outputs = form_.bottleneck ? 4 * channels : channels;
    Value branch;
    if (form_.bottleneck) {
      branch = ConvNormRelu(g, "_1", x, channels, {.kernel = 1});
      branch = ConvNormRelu(g, "_2", branch, channels, {.kernel = 3, .stride = stride});
      branch = ConvNorm(g, "_3", branch, outputs, {.kernel = 1});
    } else {
      branch = ConvNormRelu(g, "_1", x, channels, {.kernel = 3, .stride = stride});
      branch = ConvNorm(g, "_2", branch, outputs, {.kernel = 3});
    }
    if (stride != 1 || g.shape(x).dim(-1) != outputs) x = Shortcut(g, x, outputs, stride);
    branch = DropPath(g, "drop_path", branch, drop_path);
    return ops::Relu(g.builder(), Add(g, "residual", x, branch), "relu");
  }

  Value Shortcut(Layers& g, Value x, int64_t outputs, int64_t stride) const {
    if (shortcut_ != ShortcutForm::kProjection) {
      const bool around = shortcut_ == ShortcutForm::kZerosAround;
      const int64_t before = around ? (outputs - g.shape(x).dim(-1)) / 2 : 0;
      return ops::Subsample(g.builder(), x, stride, outputs, "shortcut", before);
    }
    const Scope scope(g.builder(), "shortcut");
    return ConvNorm(g, "", x, outputs, {.kernel = 1, .stride = stride});
  }

  Form form_;
  BatchNormOptions norm_;
  ShortcutForm shortcut_;
};

std::vector<std::string> ResNet::NormsInFiles() const {
  std::vector<std::string> names = {"bn1"};
  for (size_t stage = 0; stage < form_.blocks.size(); ++stage) {
    for (int64_t block = 0; block < form_.blocks[stage]; ++block) {
      const std::string in_files = fmt::format("layer{}.{}.", stage + 1, block);
      for (int64_t i = 1; i <= ConvolutionsOfBlock(); ++i) {
        names.push_back(fmt::format("{}bn{}", in_files, i));
      }
      if (block == 0 && Projects(stage)) names.push_back(in_files + "downsample.1");
    }
  }
  return names;
}

// The names of torchvision, which timm shares; small ResNets have similar ones. Convolutions are
// stored [outputs, inputs, height, width].
CheckpointTable ResNet::checkpoint_table() const {
  CheckpointTable table;
  const auto conv = [&](const std::string& own, const std::string& in_files) {
    table.entries.push_back(
        {.parameter = own + ".weight", .tensors = {{in_files + ".weight"}}, .order = {0, 3, 1, 2}});
  };
  const auto all_of = [&](const std::string& own, const std::string& in_files,
                          std::initializer_list<const char*> tensors) {
    for (const char* tensor : tensors) {
      table.entries.push_back({own + "." + tensor, {{in_files + "." + tensor}}});
    }
  };
  const auto norm = [&](const std::string& own, const std::string& in_files) {
    all_of(own, in_files, {"weight", "bias", "running_mean", "running_var"});
  };
  conv("stem.conv", "conv1");
  norm("stem.norm", "bn1");
  for (size_t stage = 0; stage < form_.blocks.size(); ++stage) {
    const std::string own = fmt::format("stage.{}.block.*.", stage);
    const std::string in_files = fmt::format("layer{}.*.", stage + 1);  // files count stages from 1
    for (int64_t i = 1; i <= ConvolutionsOfBlock(); ++i) {
      conv(fmt::format("{}conv_{}", own, i), fmt::format("{}conv{}", in_files, i));
      norm(fmt::format("{}norm_{}", own, i), fmt::format("{}bn{}", in_files, i));
    }
    conv(own + "shortcut.conv", in_files + "downsample.0");
    norm(own + "shortcut.norm", in_files + "downsample.1");
  }
  all_of("head", "fc", {"weight", "bias"});
  CheckpointEntry batches{.parameter = "norm_batches", .tensors = {}, .count = true};
  for (const std::string& name : NormsInFiles()) {
    batches.tensors.push_back({name + ".num_batches_tracked", 1});
  }
  table.entries.push_back(std::move(batches));
  return table;
}

std::vector<Setting> OwnSettings() {
  std::vector<Setting> rows = {
      {.name = "depth",
       .doc = "Layers: 18, 34, 50, 101 or 152 for large images, 6n + 2 for small ones.",
       .required = "give the number of layers, such as 50, or 20 for small images",
       .min = 8,
       .max = 10000},
      {.name = "norms",
       .type = Setting::Type::kChoice,
       .doc = "Which statistics batch norms use in training: those of the batch, or, `frozen`, the "
              "running ones, which then stay as they are (docs/batch_norm.md).",
       .default_value = std::string("batch"),
       .choices = {"batch", "frozen"},
       .with_loaded_weights = Setting::WithLoadedWeights::kYes},
      {.name = "norm_samples",
       .doc = "Samples that a batch norm normalizes together, whatever the micro-batch, which is a "
              "multiple of it; 0: the whole micro-batch.",
       .default_value = int64_t{0},
       .min = 0,
       .max = 1e6,
       .with_loaded_weights = Setting::WithLoadedWeights::kYes},
      {.name = "shortcut",
       .type = Setting::Type::kChoice,
       .doc = "Shortcuts where the shape changes: `B` projects; `A` and `A_centered`, for 6n + 2 "
              "layers, take every second pixel and set new channels to 0, without parameters: "
              "those after the old ones, or half of them on either side, as PyTorch programs for "
              "CIFAR do (docs/other_weights.md).",
       .default_value = std::string("B"),
       .choices = {"A", "A_centered", "B"}}};
  rows.push_back(DropPathSetting());
  for (Setting& row : ImageSettings()) rows.push_back(std::move(row));
  for (Setting& row : ClassifierSettings()) rows.push_back(std::move(row));
  rows.push_back(MixedLabelsSetting());
  return rows;
}

const FamilyRegistration kFamily({
    .name = "resnet",
    .settings = OwnSettings(),
    .complete = &CompleteClassifier,
    .make = [](const Settings& s) { return std::make_unique<ResNet>(s); },
    // Keys that remain if these settings were added to a folder from timm.
    .config_keys = {formats::Harmless("architecture", "depth says it"),
                    formats::Harmless("num_classes", "classes says it"),
                    formats::Harmless("num_features", "depth says it"),
                    formats::Refused("pretrained_cfg",
                                     "move its mean and std to image_mean and image_std of a "
                                     "preprocessor_config.json, and remove it")},
});

}  // namespace
}  // namespace plimsoll::models
