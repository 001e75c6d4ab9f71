// ResNet. He et al. 2016, "Deep Residual Learning for Image Recognition": for large images (table
// 1: 18, 34, 50, 101 or 152 layers; the stride of a bottleneck is in its 3×3 convolution, as in
// torchvision) and for small ones (section 4.2: 6n + 2 layers, with projections where a shortcut
// changes its shape).
#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <string>

#include "base/error.h"
#include "models/classifier.h"
#include "models/family.h"
#include "models/vision_layers.h"
#include "ops/pooling/global_avg_pool.h"
#include "ops/pooling/max_pool.h"
#include "ops/relu.h"

namespace plimsoll::models {
namespace {

using graph::Scope;
using graph::Value;

// What a depth stands for.
struct Form {
  bool small = false;       // images: a stem of 3×3 without pooling, three stages from 16 channels
  bool bottleneck = false;  // blocks of 1×1, 3×3, 1×1 with four times as many channels
  std::vector<int64_t> blocks;  // of each stage
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

Value ConvNorm(Layers& g, const std::string& number, Value x, int64_t channels,
               ConvOptions options) {
  return BatchNorm(g, "norm" + number, Conv(g, "conv" + number, x, channels, options));
}

Value ConvNormRelu(Layers& g, const std::string& number, Value x, int64_t channels,
                   ConvOptions options) {
  return ops::Relu(g.builder(), ConvNorm(g, number, x, channels, options), "relu" + number);
}

class ResNet final : public Model {
 public:
  explicit ResNet(const Settings& settings)
      : Model("resnet", settings), form_(FormOf(settings.Int("depth"))) {}

  void CheckBatch(const Batch& batch) const override {
    if (batch.sequence != 1) throw UserError("a ResNet reads images, which have no sequence");
  }

 protected:
  Outputs Forward(Layers& g, Head head) const override {
    const Settings& s = settings();
    Value x = Images(g, s.Int("image_size"), s.Int("image_size"), s.Int("channels"));
    x = Stem(g, x);
    int64_t channels = form_.small ? 16 : 64;
    for (size_t stage = 0; stage < form_.blocks.size(); ++stage, channels *= 2) {
      const Scope in_stage(g.builder(), "stage." + std::to_string(stage));
      for (int64_t i = 0; i < form_.blocks[stage]; ++i) {
        const Scope in_block(g.builder(), "block." + std::to_string(i));
        x = Block(g, x, channels, stage > 0 && i == 0 ? 2 : 1);
      }
    }
    x = ops::GlobalAvgPool(g.builder(), x, "pool");
    const Initializer uniform = UniformByInputs(g.shape(x).dim(-1));
    return ClassifierHead(g, "head", x, head,
                          {.classes = s.Int("classes"),
                           .label_smoothing = s.Float("label_smoothing"),
                           .weight = uniform,
                           .bias = uniform});
  }

 private:
  Value Stem(Layers& g, Value x) const {
    const Scope scope(g.builder(), "stem");
    if (form_.small) return ConvNormRelu(g, "", x, 16, {.kernel = 3});
    x = ConvNormRelu(g, "", x, 64, {.kernel = 7, .stride = 2});
    return ops::MaxPool2d(g.builder(), x, ops::Pool2d::Square(3, 2, 1), "pool");
  }

  // x + its branch, or a projection of x where the shape changes; then ReLU.
  Value Block(Layers& g, Value x, int64_t channels, int64_t stride) const {
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
    if (stride != 1 || g.shape(x).dim(-1) != outputs) {
      const Scope scope(g.builder(), "shortcut");
      x = ConvNorm(g, "", x, outputs, {.kernel = 1, .stride = stride});
    }
    return ops::Relu(g.builder(), Add(g, "residual", x, branch), "relu");
  }

  Form form_;
};

std::vector<Setting> OwnSettings() {
  std::vector<Setting> rows = {
      {.name = "depth",
       .doc = "Layers: 18, 34, 50, 101 or 152 for large images, 6n + 2 for small ones.",
       .required = "give the number of layers, such as 50, or 20 for small images",
       .min = 8,
       .max = 10000}};
  for (Setting& row : ImageSettings()) rows.push_back(std::move(row));
  for (Setting& row : ClassifierSettings()) rows.push_back(std::move(row));
  return rows;
}

const FamilyRegistration kFamily({
    .name = "resnet",
    .settings = OwnSettings(),
    .make = [](const Settings& s) { return std::make_unique<ResNet>(s); },
});

}  // namespace
}  // namespace plimsoll::models
