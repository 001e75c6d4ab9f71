#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "trainer/resolve/from_config.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

// A step of SGD with rate 1 subtracts the gradient from the weights, so that both steps give it.
TEST(AttentionOnly, GradientsAreThoseOfTheLoss) {
  const auto model = ModelFrom(LoadRunText("model: {family: attention_only, layers: 2, width: 8, "
                                           "heads: 2, vocab: 11, sequence: 6}\n"
                                           "data: {synthetic: true}\n",
                                           "run.yaml")
                                   .config);
  ThreadPool pool(1);
  CompileOptions options;
  options.micro_batch = 2;
  options.sequence = 6;
  options.evaluate = true;
  options.update.algorithm = optim::UpdateOptions::Algorithm::kSgd;
  options.update.momentum = options.update.weight_decay = options.update.clip_grad_norm = 0;
  Session session(Compile(*model, options), pool);
  session.Initialize(*model, 1);
  for (int32_t i = 0; i < 12; ++i) {
    session.batch().tokens[i] = i * 7 % 11;
    session.batch().targets[i] = i * 5 % 11;
  }
  const auto read = [&](const std::string& name) { return session.ReadParameter(name); };

  std::vector<std::vector<float>> weights, gradients;
  for (const auto& parameter : model->parameters()) weights.push_back(read(parameter.name));
  session.BeginStep(12, 1.0, 1);
  session.Run(0, 0);
  for (size_t p = 0; p < weights.size(); ++p) {
    const std::string& name = model->parameters()[p].name;
    gradients.push_back(read(name));
    for (size_t i = 0; i < weights[p].size(); ++i) {
      gradients[p][i] = weights[p][i] - gradients[p][i];
    }
    session.WriteParameter(name, weights[p]);
  }

  // Along each parameter's gradient the loss changes by the gradient's norm.
  for (size_t p = 0; p < weights.size(); ++p) {
    const std::string& name = model->parameters()[p].name;
    double squares = 0;
    for (const float element : gradients[p]) squares += double{element} * element;
    const double norm = std::sqrt(squares);
    const auto loss_at = [&](double distance) {
      std::vector<float> moved = weights[p];
      for (size_t i = 0; i < moved.size(); ++i) {
        moved[i] += static_cast<float>(distance * gradients[p][i] / norm);
      }
      session.WriteParameter(name, moved);
      return session.Evaluate(12);
    };
    const double change = (loss_at(0.005) - loss_at(-0.005)) / 0.01;
    EXPECT_GT(norm, 1e-6) << name;
    EXPECT_NEAR(change, norm, 0.01 * norm + 2e-5) << name;
    session.WriteParameter(name, weights[p]);
  }
}

}  // namespace
}  // namespace plimsoll::trainer
