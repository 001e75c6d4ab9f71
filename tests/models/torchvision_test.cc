// Torchvision's ResNets give the same logits as in torchvision, and are written as torchvision
// reads them. torchvision/ is made by check_with_torchvision.py --write-golden.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "formats/model_safetensors.h"
#include "models/huggingface.h"
#include "tests/models/formula_weights.h"
#include "tests/models/forward.h"
#include "tests/models/loaded_weights.h"
#include "tests/models/recorded_case.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::models {
namespace {

using formats::TensorType;

struct Golden : RecordedCase {
  explicit Golden(const std::string& name)
      : RecordedCase("tests/models/torchvision/" + name + ".safetensors") {}
};

TEST(Torchvision, LogitsAgree) {
  for (const char* name : {"resnet18", "resnet50"}) {
    const Golden golden(name);
    const TempFolder folder;
    golden.Write(folder);
    const int64_t size = golden.json.RequireObject("config").RequireInt("image_size");
    std::vector<float> image;
    for (const double x : UniformByName("image", size * size * 3))
      image.push_back(static_cast<float>(x));
    Forward forward(folder.path(), {1, 1}, Head::kLogits);
    ExpectLogits(forward.ClassLogits(image), golden.Numbers("logits"), 1e-5, name);
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
