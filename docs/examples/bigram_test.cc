#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "base/thread_pool.h"
#include "tests/support/temp_folder.h"
#include "trainer/resolve/from_config.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

// Each token is followed by the next number, which one token is enough to know.
void Fill(const BatchSlots& batch, int32_t vocab) {
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    batch.tokens[i] = static_cast<int32_t>(i * 7) % vocab;
    batch.targets[i] = (batch.tokens[i] + 1) % vocab;
  }
}

TEST(Bigram, LearnsWhatFollowsWhat) {
  const config::RunConfig config =
      LoadRunText(
          "model: {family: bigram, layers: 2, width: 32, ffn_width: 64, vocab: 50, "
          "sequence: 16}\n"
          "data: {synthetic: true}\n",
          "run.yaml")
          .config;
  const auto model = ModelFrom(config);
  ThreadPool pool(2);
  CompileOptions options;
  options.micro_batch = 4;
  options.sequence = 16;
  options.threads = pool.size();
  Session session(Compile(*model, options), pool);
  session.Initialize(*model, 1);
  double first = 0;
  for (int64_t step = 0; step < 150; ++step) {
    session.BeginStep(64, 1e-2, 1);
    Fill(session.batch(), 50);
    session.Run(step, 0);
    if (step == 0) first = session.Metrics().loss;
  }
  EXPECT_NEAR(first, std::log(50), 0.5);
  EXPECT_LT(session.Metrics().loss, 0.1);

  // The checkpoint table names every parameter.
  const TempFolder folder;
  session.SaveWeights(*model, folder.path());
  Session other(Compile(*model, options), pool);
  other.LoadWeights(*model, folder.path());
  for (const models::ParameterInfo& parameter : model->parameters()) {
    EXPECT_EQ(session.ReadParameter(parameter.name), other.ReadParameter(parameter.name))
        << parameter.name;
  }
}

}  // namespace
}  // namespace plimsoll::trainer
