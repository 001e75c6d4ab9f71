// Torchvision's ResNets give the same logits as in torchvision, and are written as torchvision
// reads them. torchvision/ is made by check_with_torchvision.py --write-golden.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "formats/json.h"
#include "formats/model_safetensors.h"
#include "models/huggingface.h"
#include "tests/models/formula_weights.h"
#include "tests/models/forward.h"
#include "tests/models/loaded_weights.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::models {
namespace {

using formats::JsonObject;
using formats::TensorType;

struct Golden {
  explicit Golden(const std::string& name)
      : json(JsonObject::FromFile("tests/models/torchvision/" + name + ".json")) {
    const std::vector<std::string> names = json.RequireStrings("names");
    const std::vector<std::string> all = json.RequireStrings("shapes");
    for (size_t i = 0; i < names.size(); ++i) {
      std::istringstream text(all.at(i));
      for (int64_t dim; text >> dim;) shapes[names[i]].push_back(dim);
      shapes[names[i]];  // a scalar has no dimension
    }
  }

  // Writes a checkpoint without the tensors that `leave_out` ends.
  void Write(const TempFolder& folder, const std::string& leave_out = "-") const {
    WriteWeightsByName(folder / "model.safetensors", shapes, leave_out);
    std::ostringstream config;
    config << R"({"model_type": "resnet", "depth": )" << json.RequireInt("depth")
           << R"(, "image_size": )" << json.RequireInt("image_size") << R"(, "classes": )"
           << json.RequireInt("classes") << "}";
    folder.Write("config.json", config.str());
  }

  JsonObject json;
  std::map<std::string, std::vector<int64_t>> shapes;
};

TEST(Torchvision, LogitsAgree) {
  for (const char* name : {"resnet18", "resnet50"}) {
    const Golden golden(name);
    const TempFolder folder;
    golden.Write(folder);
    const int64_t size = golden.json.RequireInt("image_size");
    std::vector<float> image;
    for (const double x : UniformByName("image", size * size * 3))
      image.push_back(static_cast<float>(x));
    const std::vector<float> logits =
        Forward(folder.path(), {1, 1}, Head::kLogits).ClassLogits(image);
    const std::vector<double> reference = golden.json.RequireFloats("logits");
    ASSERT_EQ(logits.size(), reference.size());
    double largest = 0, difference = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      largest = std::max(largest, std::abs(reference[i]));
      difference = std::max(difference, std::abs(logits[i] - reference[i]));
    }
    EXPECT_GT(largest, 1) << name;
    // Both sum in float32, in different orders.
    EXPECT_LT(difference, 1e-5 * largest) << name;
  }
}

TEST(Torchvision, CheckpointsSurviveReadingAndWriting) {
  const Golden golden("resnet50");
  const TempFolder folder, copy;
  golden.Write(folder);
  const auto model = ModelFromHuggingFace(folder.path());
  const LoadedWeights weights = ReadWeights(folder.path(), *model);
  EXPECT_EQ(LoadPieces(folder.path(), *model, {}), weights);
  EXPECT_EQ(LoadPieces(folder.path(), *model, {.threads = 3, .buffer_bytes = 100'002}), weights);
  SaveWeights(copy / "saved", *model, [&](const ParameterInfo& parameter) -> const float* {
    return weights.at(parameter.name).data();
  });
  CopyWeights(folder.path(), copy / "copied", TensorType::kF32);
  const formats::ModelSafetensors original(folder.path());
  for (const char* way : {"saved", "copied"}) {
    const formats::ModelSafetensors written(copy / way);
    EXPECT_EQ(written.Names(), original.Names());
    for (const std::string& name : original.Names()) {
      EXPECT_EQ(written.Require(name).type, original.Require(name).type) << name;
      EXPECT_EQ(written.Require(name).shape, original.Require(name).shape) << name;
      EXPECT_TRUE(std::ranges::equal(written.Raw(name), original.Raw(name))) << name;
    }
    EXPECT_EQ(ModelFromHuggingFace(copy / way)->description(), model->description());
  }
}

TEST(Torchvision, CountsStayWholeNumbersInSixteenBits) {
  const Golden golden("resnet18");
  const TempFolder folder, copy;
  golden.Write(folder);
  CopyWeights(folder.path(), copy.path(), TensorType::kBf16);
  const formats::ModelSafetensors written(copy.path());
  EXPECT_EQ(written.Require("bn1.running_var").type, TensorType::kBf16);
  EXPECT_EQ(written.Require("bn1.num_batches_tracked").type, TensorType::kI64);
  int64_t count = 0;
  std::memcpy(&count, written.Raw("bn1.num_batches_tracked").data(), sizeof(count));
  EXPECT_EQ(count, CountByName("bn1.num_batches_tracked"));
}

TEST(Torchvision, CountsMayBeAbsent) {
  const Golden golden("resnet18");
  const TempFolder folder;
  golden.Write(folder, "num_batches_tracked");
  const auto weights = ReadWeights(folder.path(), *ModelFromHuggingFace(folder.path()));
  EXPECT_EQ(weights.at("norm_batches"), std::vector<float>(20, 0));
  // Nothing else may be.
  golden.Write(folder, "running_var");
  ExpectUserError([&] { ReadWeights(folder.path(), *ModelFromHuggingFace(folder.path())); },
                  {"model.safetensors", "running_var"});
}

}  // namespace
}  // namespace plimsoll::models
