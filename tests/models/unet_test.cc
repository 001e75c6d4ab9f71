// U-Nets: their sizes are those of the same network in PyTorch (bench/unet_peer.py), and their
// training does not depend on what is kept for the backward pass, although what the way down made
// is read on the way up, in another block.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/models/model_of.h"
#include "tests/models/trained.h"
#include "tests/support/expect_error.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

using Policy = checkpointing::Options::Policy;

std::unique_ptr<models::Model> UNet(models::Values values) {
  values.emplace_back("classes", int64_t{3});
  return models::ModelOf("unet", values);
}

std::unique_ptr<models::Model> Volumes(int64_t side, int64_t levels = 3, int64_t features = 4) {
  return UNet({{"image_depth", side},
               {"image_height", side},
               {"image_width", side},
               {"levels", levels},
               {"features", features}});
}
std::unique_ptr<models::Model> Images() {
  return UNet({{"image_height", int64_t{24}},
               {"image_width", int64_t{16}},
               {"channels", int64_t{2}},
               {"levels", int64_t{4}},
               {"features", int64_t{4}}});
}

TEST(UNet, HasTheSizesOfPyTorch) {
  EXPECT_EQ(Volumes(128, 5, 32)->parameter_count(), 16'544'163);
  EXPECT_EQ(Volumes(128, 5, 32)->title(), "3-D U-Net with 5 levels");
  EXPECT_EQ(Images()->parameter_count(), 30'515);
  EXPECT_EQ(Images()->title(), "2-D U-Net with 4 levels");
}

TEST(UNet, RefusesSidesThatCannotBeHalved) {
  ExpectMessage(MessageOf<SettingError>([] { Volumes(20, 4); }),
                {"20 cannot be halved 3 times", "a multiple of 8"});
  ExpectMessage(MessageOf<SettingError>([] { Volumes(8, 4); }),
                {"the lowest level would be a single pixel", "fewer levels"});
}

Trained Train(const models::Model& model, const CompileOptions& options, int steps,
              bool by_heart = false) {
  std::mt19937 random;
  std::normal_distribution<float> normal;
  return TrainSteps(model, options, steps, 0.02, [&](Session& session, int step, int64_t micro) {
    if (micro == 0) {
      random.seed(by_heart ? 0 : step);
      normal.reset();
    }
    // A pixel's class shows in its brightness.
    const std::span<int32_t> labels = session.slot("labels").values<int32_t>();
    const std::span<float> images = session.slot("images").values<float>();
    const size_t channels = images.size() / labels.size();
    for (size_t i = 0; i < labels.size(); ++i) {
      labels[i] = static_cast<int32_t>(random() % 3);
      for (size_t c = 0; c < channels; ++c) {
        images[i * channels + c] = 0.2f * normal(random) + static_cast<float>(labels[i]);
      }
    }
  });
}

CompileOptions OptionsOf(int64_t accumulate = 1) {
  CompileOptions options;
  options.micro_batch = 2;
  options.accumulate = accumulate;
  options.threads = 2;
  return options;
}

TEST(UNet, LearnsByHeart) {
  for (const graph::DType dtype :
       {graph::DType::kFloat32, graph::DType::kBFloat16, graph::DType::kFloat16}) {
    SCOPED_TRACE(graph::Name(dtype));
    CompileOptions options = OptionsOf();
    options.amp.dtype = dtype;
    if (dtype == graph::DType::kFloat16) options.update.loss_scale.emplace();
    const Trained result = Train(*Volumes(8), options, 40, /*by_heart=*/true);
    EXPECT_LT(result.losses.back(), 0.4 * result.losses.front());
    EXPECT_EQ(result.used, result.arena);
  }
}

TEST(UNet, HasTheSameBitsUnderAllPolicies) {
  for (const auto& model : {Volumes(8), Images()}) {
    SCOPED_TRACE(model->title());
    for (const int64_t accumulate : {1, 3}) {
      const Trained kept = Train(*model, OptionsOf(accumulate), 3);
      EXPECT_EQ(kept.used, kept.arena);
      for (const Policy policy : {Policy::kBlock, Policy::kEvery, Policy::kSelective}) {
        SCOPED_TRACE(static_cast<int>(policy));
        CompileOptions options = OptionsOf(accumulate);
        options.checkpointing.policy = policy;
        options.checkpointing.every = 2;
        options.checkpointing.recompute = {{"norms", "activations"}, "", /*by_default=*/true};
        const Trained again = Train(*model, options, 3);
        ExpectSame(again, kept);
        EXPECT_LT(again.arena, kept.arena);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
