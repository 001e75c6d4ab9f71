// The two forms of a small ResNet's shortcuts without parameters. They are one network whose
// residual stream has its channels in another order, so that weights of either form, with their
// channels reordered, give in the other the same logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "formats/json.h"
#include "formats/model_safetensors.h"
#include "formats/safetensors_writer.h"
#include "models/huggingface.h"
#include "tests/models/formula_weights.h"
#include "tests/models/forward.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::models {
namespace {

using formats::JsonObject;
using formats::TensorType;

constexpr int64_t kSize = 12, kClasses = 10;

struct StoredTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using StoredTensors = std::map<std::string, StoredTensor>;

// The weights of a ResNet-8 as files have them: one block in each of three stages.
StoredTensors WeightsOfResNet8() {
  StoredTensors tensors;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
    tensors[name] = {shape, WeightsByName(name, shape)};
  };
  const auto norm = [&](const std::string& name, int64_t channels) {
    for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"}) {
      add(name + part, {channels});
    }
  };
  add("conv1.weight", {16, 3, 3, 3});
  norm("bn1", 16);
  int64_t inputs = 16;
  for (int64_t stage = 0; stage < 3; ++stage) {
    const int64_t channels = int64_t{16} << stage;
    const std::string block = "layer" + std::to_string(stage + 1) + ".0.";
    add(block + "conv1.weight", {channels, inputs, 3, 3});
    norm(block + "bn1", channels);
    add(block + "conv2.weight", {channels, channels, 3, 3});
    norm(block + "bn2", channels);
    inputs = channels;
  }
  add("fc.weight", {kClasses, 64});
  add("fc.bias", {kClasses});
  return tensors;
}

// Takes from dimension `dim` the elements that `order` names, in that order.
void Reorder(StoredTensor& tensor, size_t dim, const std::vector<int64_t>& order) {
  int64_t inner = 1, outer = 1;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i < dim) outer *= tensor.shape[i];
    if (i > dim) inner *= tensor.shape[i];
  }
  const std::vector<float> old = tensor.values;
  const auto count = static_cast<int64_t>(order.size());
  ASSERT_EQ(tensor.shape[dim], count);
  for (int64_t block = 0; block < outer; ++block) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t from = (block * count + order[static_cast<size_t>(i)]) * inner;
      const int64_t to = (block * count + i) * inner;
      std::copy_n(old.begin() + from, inner, tensor.values.begin() + to);
    }
  }
}

// The channel of the form with zeros on either side for each channel of the stream behind a
// shortcut of the form with zeros behind, given those before the shortcut.
std::vector<int64_t> Behind(const std::vector<int64_t>& before) {
  const auto old = static_cast<int64_t>(before.size());
  std::vector<int64_t> order;
  for (const int64_t channel : before) order.push_back(old / 2 + channel);
  for (int64_t zero = 0; zero < old / 2; ++zero) order.push_back(zero);
  for (int64_t zero = old / 2 + old; zero < 2 * old; ++zero) order.push_back(zero);
  return order;
}

// The same network with zeros behind, of weights for zeros on either side.
StoredTensors WithZerosBehind(StoredTensors tensors) {
  std::vector<int64_t> stream(16);
  std::iota(stream.begin(), stream.end(), 0);
  for (int64_t stage = 0; stage < 3; ++stage) {
    const std::string block = "layer" + std::to_string(stage + 1) + ".0.";
    Reorder(tensors.at(block + "conv1.weight"), 1, stream);
    if (stage > 0) stream = Behind(stream);
    Reorder(tensors.at(block + "conv2.weight"), 0, stream);
    for (const char* part : {"weight", "bias", "running_mean", "running_var"}) {
      Reorder(tensors.at(block + "bn2." + part), 0, stream);
    }
  }
  Reorder(tensors.at("fc.weight"), 1, stream);
  return tensors;
}

// A folder with the weights, whose config.json asks for that form.
void WriteModel(const TempFolder& folder, const StoredTensors& tensors, const std::string& form) {
  std::vector<formats::TensorSpec> specs;
  for (const auto& [name, tensor] : tensors)
    specs.push_back({name, TensorType::kF32, tensor.shape});
  formats::WriteSafetensors(folder / "model.safetensors", specs,
                            [&](const formats::TensorSpec& spec, formats::TensorSink& sink) {
                              sink.WriteFloat32(tensors.at(spec.name).values);
                            });
  folder.Write("config.json", R"({"model_type": "resnet", "depth": 8, "image_size": )" +
                                  std::to_string(kSize) + R"(, "classes": )" +
                                  std::to_string(kClasses) + R"(, "shortcut": ")" + form + "\"}");
}

std::vector<float> LogitsOf(const std::string& folder) {
  std::vector<float> image;
  for (const double x : UniformByName("image", kSize * kSize * 3)) {
    image.push_back(static_cast<float>(x));
  }
  return Forward(folder, {1, 1}, Head::kLogits).ClassLogits(image);
}

double Largest(const std::vector<float>& values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(double{value}));
  return largest;
}

double LargestDifference(std::vector<float> a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return Largest(a);
}

TEST(ShortcutForms, AreOneNetworkWithItsChannelsInAnotherOrder) {
  const StoredTensors tensors = WeightsOfResNet8();
  const TempFolder centered, as_they_are, reordered;
  WriteModel(centered, tensors, "A_centered");
  WriteModel(as_they_are, tensors, "A");
  WriteModel(reordered, WithZerosBehind(tensors), "A");
  const std::vector<float> want = LogitsOf(centered.path());
  ASSERT_EQ(want.size(), static_cast<size_t>(kClasses));
  // Sums over channels are in another order.
  EXPECT_LT(LargestDifference(LogitsOf(reordered.path()), want), 1e-5 * Largest(want));
  // Weights load into the wrong form, and do something else there.
  EXPECT_GT(LargestDifference(LogitsOf(as_they_are.path()), want), 0.01 * Largest(want));
}

TEST(ShortcutForms, AreSaidByConfigJson) {
  for (const std::string form : {"A", "A_centered"}) {
    const TempFolder folder, copy;
    WriteModel(folder, WeightsOfResNet8(), form);
    CopyWeights(folder.path(), copy / "copied", TensorType::kF32);
    const std::string copied = copy / "copied";
    EXPECT_EQ(JsonObject::FromFile(copied + "/config.json").RequireString("shortcut"), form);
    EXPECT_EQ(ModelFromHuggingFace(copied)->description().at("model.shortcut"), form);
    EXPECT_EQ(LogitsOf(copied), LogitsOf(folder.path()));
  }
}

TEST(ShortcutForms, OfOtherNamesAreRefused) {
  const TempFolder folder;
  WriteModel(folder, WeightsOfResNet8(), "A_center");
  ExpectUserError([&] { ModelFromHuggingFace(folder.path()); },
                  {"config.json: shortcut: \"A_center\" is not one of A, A_centered, B"});
}

TEST(ShortcutForms, HaveNoPlaceForFurtherBlocks) {
  StoredTensors tensors = WeightsOfResNet8();
  tensors["layer1.1.conv1.weight"] = tensors.at("layer1.0.conv1.weight");
  const TempFolder folder;
  WriteModel(folder, tensors, "A_centered");
  ExpectUserError([&] { LogitsOf(folder.path()); },
                  {"\"layer1.1.conv1.weight\" has no place in the ResNet-8 that config.json "
                   "describes"});
}

}  // namespace
}  // namespace plimsoll::models
