#include "trainer/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/trainer/tiny_session.h"
#include "trainer/sampler.h"

namespace plimsoll::trainer {
namespace {

TEST(Sampler, TemperatureZeroTakesTheLikeliest) {
  const std::vector<float> logits = {0.1f, 2.0f, -1.0f, 2.0f};
  Sampler sampler(0, 0, 1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(sampler.Draw(logits, 4), 1);
}

TEST(Sampler, NeverDrawsBeyondTheLimitOrTopK) {
  const std::vector<float> logits = {1, 3, 2, 0, 9};
  Sampler sampler(1.0, 2, 1);
  for (int i = 0; i < 200; ++i) {
    const int32_t id = sampler.Draw(logits, 4);
    EXPECT_TRUE(id == 1 || id == 2) << id;
  }
}

TEST(Sampler, FollowsTheDistribution) {
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), std::log(5.0f)};
  Sampler sampler(1.0, 0, 3);
  std::map<int32_t, int> counts;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++counts[sampler.Draw(logits, 3)];
  // Four standard deviations of a binomial count are below 0.015 of the draws.
  EXPECT_NEAR(counts[0], kDraws / 8.0, 0.015 * kDraws);
  EXPECT_NEAR(counts[1], kDraws / 4.0, 0.015 * kDraws);
  EXPECT_NEAR(counts[2], kDraws * 5 / 8.0, 0.015 * kDraws);
}

class GenerateTest : public testing::Test {
 protected:
  GenerateTest() : pool_(1) {
    models::ModelSpec spec = TinyGpt2();
    spec.vocab = 256;
    const auto model = models::MakeModel(spec);
    CompileOptions options;
    options.sequence = 16;
    options.train = false;
    options.generate_rows = 2;
    session_ = std::make_unique<Session>(Compile(*model, options), pool_);
    session_->Initialize(*model, 1);
  }

  ThreadPool pool_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<data::Tokenizer> bytes_ = data::MakeByteTokenizer();
};

TEST_F(GenerateTest, ContinuesThePromptBeyondTheContext) {
  const GenerateOptions options{.prompt = "abc", .tokens = 40, .seed = 5};
  const std::vector<std::string> texts = Generate(*session_, *bytes_, options);
  ASSERT_EQ(texts.size(), 2u);
  for (const std::string& text : texts) EXPECT_EQ(text.substr(0, 3), "abc");
  EXPECT_NE(texts[0], texts[1]);
  EXPECT_EQ(texts, Generate(*session_, *bytes_, options));
}

TEST_F(GenerateTest, StreamsWhatItReturns) {
  std::string streamed;
  const std::vector<std::string> texts =
      Generate(*session_, *bytes_, {.prompt = "x", .tokens = 30, .seed = 2},
               [&](const std::string& piece) { streamed += piece; });
  EXPECT_EQ(streamed, texts[0]);
}

// The logits of a position do not depend on what comes after it, nor on the other row.
TEST_F(GenerateTest, LogitsSeeThePastOnly) {
  std::vector<int32_t> tokens(32, 7);
  tokens[3] = 9;
  const std::vector<int32_t> last = {5, 2};
  const auto first = session_->Logits(tokens, last);
  const std::vector<float> before(first.begin(), first.end());
  for (int i = 6; i < 16; ++i) tokens[i] = 200;
  for (int i = 19; i < 32; ++i) tokens[i] = 100;
  const auto second = session_->Logits(tokens, last);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), second.begin()));
  tokens[2] = 8;
  const auto third = session_->Logits(tokens, last);
  EXPECT_FALSE(std::equal(before.begin(), before.begin() + 256, third.begin()));
}

}  // namespace
}  // namespace plimsoll::trainer
