// DCGAN: a generator turns noise into images, and a discriminator distinguishes them from real
// images; both are convolutional. Radford, Metz and Chintala 2015, "Unsupervised Representation
// Learning with Deep Convolutional Generative Adversarial Networks"; in the form of PyTorch's
// example (dcgan).
//
// Starting at 4 × 4, each block of the generator doubles height and width and halves the features;
// each block of the discriminator does the reverse. Weights of convolutions start at N(0, 0.02).
// Evaluations use running statistics, so that generating or judging an image does not depend on
// other images.
#include <bit>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "models/family.h"
#include "models/layers.h"
#include "models/vision_layers.h"
#include "ops/convolution/conv.h"
#include "ops/data_movement/views.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/loss/binary_cross_entropy.h"

namespace plimsoll::models {
namespace {

using graph::DType;
using graph::kNoTensor;
using graph::Scope;
using graph::Value;

constexpr double kWeightStd = 0.02;
constexpr double kSlope = 0.2;  // slope of the discriminator's leaky ReLUs
constexpr int64_t kKernel = 4, kLowest = 4;

constexpr const char* kDiscriminator = "discriminator";
constexpr const char* kGenerator = "generator";

// The setting that chooses the discriminator's normalisation.
constexpr const char* kNorm = "discriminator_norm";
constexpr const char* kBatch = "batch";
constexpr const char* kSpectral = "spectral";

class Dcgan final : public Model {
 public:
  explicit Dcgan(const Settings& settings) : Model("dcgan", settings) {
    const auto size = static_cast<uint64_t>(settings.Int("image_size"));
    if (std::has_single_bit(size) && size > kLowest) return;
    throw SettingError("image_size", "a DCGAN doubles 4 × 4 pixels; give 8, 16, 32, 64 or 128");
  }

  std::string title() const override { return "DCGAN"; }
  // A batch norm couples the samples of a batch.
  SampleCoupling sample_coupling() const override { return SampleCoupling::WholeMicroBatch(); }

  // The generator's objective reuses the data of the discriminator, which is updated first.
  std::vector<Objective> objectives() const override {
    return {{.name = kDiscriminator,
             .parameters = {"discriminator.*"},
             .updates = settings().Int("discriminator_updates")},
            {.name = kGenerator, .parameters = {"generator.*"}, .data = kDiscriminator}};
  }

  // PyTorch's kernels are [outputs, inputs, height, width]; for transposed convolutions they are
  // [inputs, outputs, …].
  CheckpointTable checkpoint_table() const override {
    CheckpointTable table;
    if (spectral()) {
      // The names that torch.nn.utils.parametrizations.spectral_norm uses.
      const std::string conv = "discriminator.block.*.conv.",
                        parts = conv + "parametrizations.weight.";
      table.entries = {
          {.parameter = conv + "weight", .tensors = {{parts + "original"}}, .order = {0, 3, 1, 2}},
          {.parameter = conv + "norm.u", .tensors = {{parts + "0._u"}}},
          {.parameter = conv + "norm.v",
           .tensors = {{parts + "0._v"}},
           .order = {2, 0, 1},
           .flat = true}};
    }
    for (const ParameterInfo& parameter : Stored()) {
      if (spectral() && parameter.name.starts_with(kDiscriminator)) continue;
      const bool kernel = parameter.shape.rank() == 4;
      table.entries.push_back(
          {.parameter = parameter.name,
           .tensors = {{parameter.name}},
           .order = kernel ? std::vector<int>{0, 3, 1, 2} : std::vector<int>{}});
    }
    return table;
  }

 protected:
  Outputs Forward(Layers& g, Head) const override {
    const Value fake = Generate(g);
    Outputs outputs;
    // In evaluation, the rows that pad the last batch have negative labels.
    const Value labels =
        g.training() ? kNoTensor : g.Input("labels", DType::kInt32, {g.batch().batch});
    const auto judge = [&](Value images, double target, const char* loss) {
      return ops::BinaryCrossEntropyWithLogits(g.builder(), Judge(g, images), g.SampleWeight(),
                                               target, loss, labels);
    };
    if (g.objective() == kGenerator) {
      const ops::BinaryCrossEntropy said = judge(fake, 1, "of_fake");
      outputs.loss = said.loss;
      outputs.metrics = {{"fooled", said.right, said.counted, /*larger_is_better=*/true}};
      outputs.images = fake;
      return outputs;
    }
    const Value images = Images(g, settings().Int("image_size"), settings().Int("image_size"),
                                settings().Int("channels"));
    const ops::BinaryCrossEntropy real = judge(images, 1, "of_real"),
                                  of_fake = judge(fake, 0, "of_fake");
    outputs.loss = Add(g, "loss", real.loss, of_fake.loss);
    outputs.metrics = {
        {"of_real", real.loss},
        {"of_fake", of_fake.loss},
        {"right_on_real", real.right, real.counted, /*larger_is_better=*/true},
        {"right_on_fake", of_fake.right, of_fake.counted, /*larger_is_better=*/true}};
    return outputs;
  }

 private:
  bool spectral() const { return settings().Text(kNorm) == kSpectral; }

  // How many times 4 × 4 is doubled to reach the image size.
  int64_t doublings() const {
    return std::bit_width(static_cast<uint64_t>(settings().Int("image_size") / kLowest)) - 1;
  }

  static Value Weight(Layers& g, int64_t outer, int64_t inner) {
    return g.Parameter("weight", {outer, kKernel, kKernel, inner},
                       {Initializer::kNormal, kWeightStd});
  }

  // A convolution of the discriminator.
  Value Conv(Layers& g, Value x, int64_t outputs, int64_t stride) const {
    Value weight;
    {
      const Scope scope(g.builder(), "conv");
      weight = Weight(g, outputs, g.shape(x).dim(-1));
      if (spectral()) weight = SpectralNorm(g, "norm", weight);
    }
    const int64_t pad = stride - 1;
    return ops::Conv(g.builder(), x, weight, kNoTensor,
                     {.stride = {1, stride, stride}, .pad = {0, pad, pad}}, "conv");
  }

  static Value ConvTranspose(Layers& g, Value x, int64_t outputs, int64_t stride) {
    Value weight;
    {
      const Scope scope(g.builder(), "conv");
      weight = Weight(g, g.shape(x).dim(-1), outputs);
    }
    const int64_t pad = stride - 1;
    return ops::ConvTranspose(g.builder(), x, weight, kNoTensor,
                              {.stride = {1, stride, stride}, .pad = {0, pad, pad}}, {0, 0, 0},
                              "conv");
  }

  // Generates images [B,H,W,C], within ±1. Its running statistics change in the generator's update,
  // once a step.
  Value Generate(Layers& g) const {
    const int64_t latent = settings().Int("latent");
    Value x = g.Input("noise", DType::kFloat32, {g.batch().batch, latent});
    const Scope scope(g.builder(), kGenerator);
    x = ops::View(g.builder(), x, {g.batch().batch, 1, 1, latent});
    const int64_t blocks = doublings();
    for (int64_t i = 0; i < blocks; ++i) {
      const Scope block(g.builder(), "block." + std::to_string(i));
      x = ConvTranspose(g, x, settings().Int("generator_features") << (blocks - 1 - i),
                        i == 0 ? 1 : 2);
      x = BatchNorm(g, "norm", x, {.relu = true, .moves = g.objective() == kGenerator});
    }
    {
      const Scope block(g.builder(), "block." + std::to_string(blocks));
      x = ConvTranspose(g, x, settings().Int("channels"), 2);
    }
    return ops::Tanh(g.builder(), x, "images");
  }

  // Returns a logit [B,1,1,1] for each image; above 0 the image is classified as real.
  Value Judge(Layers& g, Value x) const {
    const Scope scope(g.builder(), kDiscriminator);
    const int64_t blocks = doublings();
    for (int64_t i = 0; i < blocks; ++i) {
      const Scope block(g.builder(), "block." + std::to_string(i));
      x = Conv(g, x, settings().Int("discriminator_features") << i, 2);
      x = i == 0 || spectral() ? ops::LeakyRelu(g.builder(), x, kSlope, "leaky_relu")
                               : BatchNorm(g, "norm", x, {.relu = true, .slope = kSlope});
    }
    const Scope block(g.builder(), "block." + std::to_string(blocks));
    return Conv(g, x, 1, 1);
  }
};

std::vector<Setting> SettingsOf() {
  std::vector<Setting> settings = ImageSettings();
  const auto features = [](const char* name, const char* whose) {
    return Setting{.name = name,
                   .doc = std::string("Features of the ") + whose +
                          " next to the image; twice as many at half the size.",
                   .default_value = int64_t{64},
                   .min = 1,
                   .max = 1e5};
  };
  settings.push_back({.name = "latent",
                      .doc = "Numbers of noise that an image is made of.",
                      .default_value = int64_t{100},
                      .min = 1,
                      .max = 1e6});
  settings.push_back(features("generator_features", "generator"));
  settings.push_back(features("discriminator_features", "discriminator"));
  settings.push_back({.name = kNorm,
                      .type = Setting::Type::kChoice,
                      .doc = "In the discriminator: batch norms, or spectral norms of its weights "
                             "(Miyato et al. 2018).",
                      .default_value = std::string(kBatch),
                      .choices = {kBatch, kSpectral}});
  settings.push_back({.name = "discriminator_updates",
                      .doc = "Updates of the discriminator for each of the generator.",
                      .default_value = int64_t{1},
                      .min = 1,
                      .max = 1e5});
  return settings;
}

const FamilyRegistration kFamily({
    .name = "dcgan",
    .settings = SettingsOf(),
    .make = [](const Settings& s) { return std::make_unique<Dcgan>(s); },
});

}  // namespace
}  // namespace plimsoll::models
