// What `plimsoll predict` reads of programs: the features of pictures, the logits of masked words.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "tests/models/model_of.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

// Of pictures' classifiers alone, and only where they are asked for: what the head reads.
TEST(ClassFeatures, GiveTheLogits) {
  ThreadPool pool(1);
  for (const std::string name : {"resnet", "vit"}) {
    models::Values values = {
        {"image_size", int64_t{8}}, {"channels", int64_t{1}}, {"classes", int64_t{4}}};
    if (name == "resnet") {
      values.emplace_back("depth", int64_t{8});
    } else {
      for (const auto& [key, value] : {std::pair("layers", 1), std::pair("width", 16),
                                       std::pair("heads", 2), std::pair("patch", 4)}) {
        values.emplace_back(key, int64_t{value});
      }
    }
    const auto model = models::ModelOf(name, values);
    CompileOptions options;
    options.evaluate = true;
    options.micro_batch = 3;
    const CompiledStep without = Compile(*model, options);
    for (const auto& program : without.programs) {
      EXPECT_EQ(program->Find(kClassFeatures), graph::kNoTensor) << program->name();
    }
    options.features = true;
    options.train = false;
    Session session(Compile(*model, options), pool);
    session.Initialize(*model, 3);
    const std::span<float> images = session.slot("images").values<float>();
    for (size_t i = 0; i < images.size(); ++i) images[i] = std::sin(static_cast<float>(i));
    session.Evaluate(1);

    const graph::Shape shape = session.ShapeOf(kClassFeatures);
    const auto width = static_cast<size_t>(shape.dim(1));
    EXPECT_EQ(shape, (graph::Shape{3, name == "vit" ? 16 : 64}));
    const std::vector<float> features = session.Read<float>(kClassFeatures),
                             logits = session.Read<float>(kClassLogits),
                             weight = session.ReadParameter("head.weight"),
                             bias = session.ReadParameter("head.bias");
    for (size_t row = 0; row < 3; ++row) {
      for (size_t k = 0; k < 4; ++k) {
        double logit = bias[k];
        for (size_t d = 0; d < width; ++d) {
          logit += static_cast<double>(weight[k * width + d]) * features[row * width + d];
        }
        EXPECT_NEAR(logits[4 * row + k], logit, 1e-5);
      }
    }
  }
}

// The loss of one masked token is −ln of the probability that the logits give it.
TEST(MaskLogits, AreThoseOfTheLoss) {
  constexpr int64_t kTokens = 6, kPosition = 2;
  const auto model = models::ModelOf("bert", {{"layers", int64_t{2}},
                                              {"width", int64_t{16}},
                                              {"heads", int64_t{2}},
                                              {"vocab", int64_t{40}},
                                              {"sequence", kTokens},
                                              {"padded", true}});
  CompileOptions options;
  options.train = false;
  options.evaluate = true;
  options.sequence = options.generate_context = kTokens;
  options.generate_rows = 1;
  options.cache = false;
  ThreadPool pool(1);
  Session session(Compile(*model, options), pool);
  session.Initialize(*model, 3);

  const std::vector<int32_t> tokens = {2, 11, 4, 12, 3, 0};
  std::ranges::copy(tokens, session.slot("tokens").values<int32_t>().begin());
  std::ranges::fill(session.slot("targets").values<int32_t>(), -100);
  session.slot("targets").values<int32_t>()[kPosition] = 17;
  std::ranges::fill(session.slot("token_types").values<int32_t>(), 0);
  session.slot("lengths").values<int32_t>()[0] = 5;
  const double loss = session.Evaluate(1);

  const int32_t length = 5, last = kPosition;
  session.Write<int32_t>("logits.tokens", tokens);
  session.Write<int32_t>("token_types", std::vector<int32_t>(kTokens, 0));
  session.Write<int32_t>("lengths", {&length, 1});
  session.Write<int32_t>("last", {&last, 1});
  session.executor(session.compiled().step.logits).Run();
  const std::vector<float> logits = session.Read<float>("logits");
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  EXPECT_NEAR(std::log(sum) - logits[17], loss, 1e-5);
}

}  // namespace
}  // namespace plimsoll::trainer
