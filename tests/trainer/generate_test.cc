#include "trainer/language/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

TEST(Sampler, TemperatureZeroTakesTheLikeliest) {
  const std::vector<float> logits = {0.1f, 2.0f, -1.0f, 2.0f};
  Sampler sampler(0, 0, 1, 1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(sampler.Draw(logits, 4), 1);
}

TEST(Sampler, NeverDrawsBeyondTheLimitOrTopK) {
  const std::vector<float> logits = {1, 3, 2, 0, 9};
  Sampler sampler(1.0, 2, 1, 1);
  for (int i = 0; i < 200; ++i) {
    const int32_t id = sampler.Draw(logits, 4);
    EXPECT_TRUE(id == 1 || id == 2) << id;
  }
}

TEST(Sampler, FollowsTheDistribution) {
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), std::log(5.0f)};
  Sampler sampler(1.0, 0, 1, 3);
  std::map<int32_t, int> counts;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++counts[sampler.Draw(logits, 3)];
  // Four standard deviations of a binomial count are below 0.015 of the draws.
  EXPECT_NEAR(counts[0], kDraws / 8.0, 0.015 * kDraws);
  EXPECT_NEAR(counts[1], kDraws / 4.0, 0.015 * kDraws);
  EXPECT_NEAR(counts[2], kDraws * 5 / 8.0, 0.015 * kDraws);
}

// The nucleus is the smallest set of likeliest tokens with that much probability: each of its
// tokens is drawn as often as among them, and no other one ever.
TEST(Sampler, TopPDrawsFromTheFewestThatHaveTheProbability) {
  const std::vector<double> shares = {0.05, 0.4, 0.1, 0.25, 0.2};
  std::vector<float> logits;
  for (const double share : shares) logits.push_back(std::log(static_cast<float>(share)));
  logits.push_back(9);  // beyond the limit
  struct Case {
    double top_p;
    int64_t top_k;
    std::vector<int32_t> nucleus;
  };
  for (const Case& c :
       {Case{0.01, 0, {1}}, Case{0.39, 0, {1}}, Case{0.41, 0, {1, 3}}, Case{0.7, 0, {1, 3, 4}},
        Case{0.94, 0, {1, 2, 3, 4}}, Case{0.96, 0, {0, 1, 2, 3, 4}}, Case{1, 0, {0, 1, 2, 3, 4}},
        // Of the two likeliest the first one has 0.4 / 0.65 = 0.62 of the probability.
        Case{0.6, 2, {1}}, Case{0.63, 2, {1, 3}}}) {
    Sampler sampler(1.0, c.top_k, c.top_p, 11);
    constexpr int kDraws = 8000;
    std::map<int32_t, int> counts;
    for (int i = 0; i < kDraws; ++i) ++counts[sampler.Draw(logits, 5)];
    double all = 0;
    for (const int32_t id : c.nucleus) all += shares[static_cast<size_t>(id)];
    ASSERT_EQ(counts.size(), c.nucleus.size()) << c.top_p;
    for (const int32_t id : c.nucleus) {
      EXPECT_NEAR(counts[id], kDraws * shares[static_cast<size_t>(id)] / all, 0.023 * kDraws)
          << c.top_p << ", token " << id;
    }
  }
  // The temperature comes first: nearly all probability is the likeliest token's.
  Sampler cold(0.1, 0, 0.9, 5);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(cold.Draw(logits, 5), 1);
}

std::unique_ptr<Session> MakeSession(const models::ModelSpec& spec, ThreadPool& pool, int64_t rows,
                                     int64_t context, bool cache = true) {
  const auto model = models::MakeModel(spec);
  CompileOptions options;
  options.generate_rows = rows;
  options.generate_context = context;
  options.cache = cache;
  options.train = false;
  options.threads = pool.size();
  auto session = std::make_unique<Session>(Compile(*model, options), pool);
  session->Initialize(*model, 1);
  return session;
}

class GenerateTest : public testing::Test {
 protected:
  GenerateTest() : pool_(1) {
    models::ModelSpec spec = TinyGpt2();
    spec.vocab = 256;
    session_ = MakeSession(spec, pool_, 2, 16);
  }

  ThreadPool pool_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<data::Tokenizer> bytes_ = data::MakeByteTokenizer();
};

TEST_F(GenerateTest, ContinuesThePromptBeyondTheContext) {
  const GenerateOptions options{.prompt = "abc", .tokens = 40, .seed = 5};
  const Generated generated = Generate(*session_, *bytes_, options);
  ASSERT_EQ(generated.texts.size(), 2u);
  for (const std::string& text : generated.texts) EXPECT_EQ(text.substr(0, 3), "abc");
  EXPECT_NE(generated.texts[0], generated.texts[1]);
  EXPECT_EQ(generated.prompt_tokens, 3);
  EXPECT_EQ(generated.tokens, 80);
  EXPECT_EQ(generated.texts, Generate(*session_, *bytes_, options).texts);
}

TEST_F(GenerateTest, StreamsWhatItReturns) {
  std::string streamed;
  const Generated generated = Generate(*session_, *bytes_, {.prompt = "x", .tokens = 30, .seed = 2},
                                       [&](const std::string& piece) { streamed += piece; });
  EXPECT_EQ(streamed, generated.texts[0]);
}

// Each row ends before the stop string, wherever it comes in its text, and what is streamed is what
// is returned.
TEST_F(GenerateTest, EndsBeforeAStopString) {
  GenerateOptions options{.prompt = "x", .tokens = 60, .seed = 2};
  const Generated whole = Generate(*session_, *bytes_, options);
  options.stop = {whole.texts[0].substr(20, 4), "never"};
  const size_t end = whole.texts[0].find(options.stop[0], 1);
  std::string streamed;
  const Generated ended =
      Generate(*session_, *bytes_, options, [&](const std::string& piece) { streamed += piece; });
  EXPECT_EQ(ended.texts[0], whole.texts[0].substr(0, end));
  EXPECT_EQ(streamed, ended.texts[0]);
  EXPECT_EQ(ended.texts[1], whole.texts[1].substr(0, whole.texts[1].find(options.stop[0], 1)));
  EXPECT_LT(ended.tokens, whole.tokens);
  // The prompt is not searched.
  options.stop = {"x"};
  EXPECT_EQ(Generate(*session_, *bytes_, options).texts[0].substr(0, 1), "x");
}

TEST_F(GenerateTest, EndsAtEachTokenThatEndsTexts) {
  GenerateOptions options{.prompt = "x", .tokens = 60, .seed = 2};
  for (int32_t id = 0; id < 256; ++id) options.ends.push_back(id);
  const Generated generated = Generate(*session_, *bytes_, options);
  EXPECT_EQ(generated.tokens, 2);  // one of each row
  EXPECT_EQ(generated.texts, (std::vector<std::string>{"x", "x"}));
}

// The logits of a text depend neither on earlier texts nor on the other row's text.
TEST_F(GenerateTest, LogitsSeeTheirOwnTextOnly) {
  const std::vector<int32_t> text = {3, 1, 4, 1, 5}, other = {9, 2, 6, 5, 3}, third(5, 7);
  const auto logits_of = [&](const std::vector<int32_t>& neighbour) {
    NextToken next(*session_);  // owns the logits
    const auto logits = next.Logits(std::vector{text, neighbour});
    return std::vector<float>(logits.begin(), logits.begin() + 256);
  };
  const std::vector<float> expected = logits_of(other);
  NextToken(*session_).Logits(
      std::vector{std::vector<int32_t>(14, 200), std::vector<int32_t>(14, 7)});
  EXPECT_EQ(logits_of(third), expected);
}

TEST_F(GenerateTest, CacheIsCarriedAndAppearsInThePlan) {
  const memory::MemoryPlan& plan = session_->compiled().plan;
  // 2 layers, keys and values, 2 rows, 16 positions, width 32.
  EXPECT_EQ(plan.bytes_of(graph::Role::kState), 2 * 2 * 2 * 16 * 32 * 4);
}

// The window of prefill is 128 tokens: 150 take two, the second of which reaches back.
struct CacheCase {
  const char* name;
  models::ModelSpec spec;
  int64_t context;
};

models::ModelSpec Longer(models::ModelSpec spec) {
  spec.max_sequence = 160;
  spec.init_std = 0.2;  // tokens matter more than with the usual initialisation
  return spec;
}

models::ModelSpec WithLinearScaling(models::ModelSpec spec) {
  spec.rope_scaling = models::RopeScaling::Linear(4);
  return spec;
}

models::ModelSpec WithYarn(models::ModelSpec spec) {
  spec.rope_theta = 100;
  spec.rope_scaling = models::RopeScaling::Yarn(4, 40);
  return spec;
}

// Of a text of `original` tokens and more, longrope has the factors of long ones; from the first
// token on, as the cache has room for it.
models::ModelSpec TinyPhi3(int64_t original) {
  models::ModelSpec spec = models::Phi3Spec({2, 32, 4, 2, 8, 80, 96, 16, false});
  spec.rotary_width = 6;
  spec.rope_scaling = models::LongropeOf(spec, original);
  return spec;
}

class CacheTest : public testing::TestWithParam<CacheCase> {};

TEST_P(CacheTest, LogitsAreThoseOfTheWholeText) {
  const CacheCase& c = GetParam();
  ThreadPool pool(2);
  const auto cached = MakeSession(c.spec, pool, 2, c.context);
  const auto whole = MakeSession(c.spec, pool, 2, c.context, false);
  ASSERT_EQ(whole->compiled().plan.bytes_of(graph::Role::kState), 0);

  for (const int64_t prompt : {int64_t{1}, int64_t{5}, c.context - 3}) {
    std::mt19937 random(prompt);
    std::vector<std::vector<int32_t>> texts(2);
    for (auto& text : texts) {
      for (int64_t i = 0; i < prompt; ++i) {
        text.push_back(static_cast<int32_t>(random() % c.spec.vocab));
      }
    }
    NextToken with_cache(*cached), without(*whole);
    for (int step = 0; step < 8; ++step) {  // beyond the context for the longest prompt
      const auto got = with_cache.Logits(texts);
      const auto expected = without.Logits(texts);
      ASSERT_EQ(got.size(), static_cast<size_t>(2 * c.spec.vocab));
      float largest = 1;
      for (const float value : expected) largest = std::max(largest, std::fabs(value));
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], expected[i], 2e-5 * largest)
            << "prompt " << prompt << " step " << step << " logit " << i;
      }
      for (size_t r = 0; r < texts.size(); ++r) {
        texts[r].push_back(
            Sampler(0, 0, 1, 1)
                .Draw(expected.subspan(r * c.spec.vocab, c.spec.vocab), c.spec.vocab));
      }
    }
  }
}

// As in a conversation whose turns are rendered anew: what texts share with earlier ones is still
// in the cache, and what they no longer have does not act on them.
TEST_P(CacheTest, TextsMayBranchOffEarlierOnes) {
  const CacheCase& c = GetParam();
  ThreadPool pool(2);
  const auto cached = MakeSession(c.spec, pool, 2, c.context);
  const auto whole = MakeSession(c.spec, pool, 2, c.context, false);
  const auto tokens = [&](uint32_t seed, int64_t count) {
    std::mt19937 random(seed);
    std::vector<int32_t> text;
    for (int64_t i = 0; i < count; ++i) {
      text.push_back(static_cast<int32_t>(random() % c.spec.vocab));
    }
    return text;
  };
  NextToken with_cache(*cached), without(*whole);
  const std::vector<int32_t> start = tokens(1, 8);
  struct Branch {
    size_t kept;   // of `start`
    int64_t more;  // tokens after them
  };
  uint32_t seed = 2;
  for (const Branch& branch : {Branch{8, 0}, Branch{8, c.context - 9}, Branch{8, 5}, Branch{5, 7},
                               Branch{8, 0}, Branch{0, 3}, Branch{8, c.context}, Branch{8, 2}}) {
    std::vector<std::vector<int32_t>> texts(2, start);
    for (auto& text : texts) {
      text.resize(branch.kept);
      const std::vector<int32_t> more = tokens(seed++, branch.more);
      text.insert(text.end(), more.begin(), more.end());
    }
    const auto got = with_cache.Logits(texts);
    const auto expected = without.Logits(texts);
    float largest = 1;
    for (const float value : expected) largest = std::max(largest, std::fabs(value));
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], 2e-5 * largest)
          << branch.kept << " + " << branch.more << " logit " << i;
    }
  }
}

TEST_P(CacheTest, GreedyTextsAreThoseWithoutIt) {
  CacheCase c = GetParam();
  c.spec.vocab = 256;
  ThreadPool pool(2);
  const auto bytes = data::MakeByteTokenizer();
  const auto cached = MakeSession(c.spec, pool, 1, c.context);
  const auto whole = MakeSession(c.spec, pool, 1, c.context, false);
  const GenerateOptions greedy{
      .prompt = std::string(c.context - 10, 'a') + "bcd", .tokens = 20, .temperature = 0};
  EXPECT_EQ(Generate(*cached, *bytes, greedy).texts, Generate(*whole, *bytes, greedy).texts);
}

INSTANTIATE_TEST_SUITE_P(
    Models, CacheTest,
    testing::Values(
        CacheCase{"gpt2", Longer(TinyGpt2()), 150},
        CacheCase{"llama", Longer(models::LlamaSpec({2, 32, 2, 2, 16, 80, 96, 16, false})), 20},
        CacheCase{"grouped", Longer(models::LlamaSpec({2, 32, 4, 2, 8, 80, 96, 16, false})), 150},
        CacheCase{"linear_scaling", Longer(WithLinearScaling(TinyLlama())), 128},
        CacheCase{"yarn", Longer(WithYarn(TinyLlama())), 128},
        CacheCase{"phi3_short", Longer(TinyPhi3(20)), 20},
        CacheCase{"phi3_long", Longer(TinyPhi3(19)), 20},
        CacheCase{"one_kv_head", Longer(TinyLlama()), 128}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace plimsoll::trainer
