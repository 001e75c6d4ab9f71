// Metrics that a model declares: their values in steps and evaluations.
#include "trainer/step/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/thread_pool.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/expect_error.h"
#include "tests/trainer/telling_model.h"
#include "trainer/record/step_record.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;
using testing::ElementsAre;

constexpr int64_t kBatch = 2, kSequence = 5, kTargets = 8;  // of a micro-batch

CompileOptions Options(int64_t accumulate) {
  CompileOptions options;
  options.micro_batch = kBatch;
  options.sequence = kSequence;
  options.accumulate = accumulate;
  options.evaluate = true;
  options.threads = 2;
  return options;
}

std::unique_ptr<models::Model> Model(bool tells = true) {
  return models::WithParameters(std::make_unique<Telling>(tells));
}

struct Running {
  explicit Running(const CompileOptions& options, bool tells = true)
      : pool(2), session(Compile(*Model(tells), options), pool, {.check_arena = true}) {
    session.Initialize(*Model(tells), 1);
  }
  ThreadPool pool;
  Session session;
};

void Fill(Session& session, int64_t number) {
  const auto [tokens, targets] = TellingBatch(number, kBatch * kSequence);
  std::ranges::copy(tokens, session.batch().tokens.begin());
  std::ranges::copy(targets, session.batch().targets.begin());
}

StepMetrics Step(Session& session, int64_t step) {
  session.BeginStep(kTargets * session.accumulate(), 1e-2, 1);
  for (int64_t micro = 0; micro < session.accumulate(); ++micro) {
    Fill(session, step * session.accumulate() + micro);
    session.Run(step, micro);
  }
  session.EndStep();
  return session.TakeMetrics()[0];
}

// The metrics of the model, in its order.
enum { kAccuracy, kConfusion, kShare, kAgain, kTable, kStream, kSquares, kMetrics };

void ExpectTold(const StepMetrics& metrics, const Told& told, const TellingReference& reference,
                int64_t batches) {
  ASSERT_EQ(metrics.declared.size(), static_cast<size_t>(kMetrics));
  const auto& declared = metrics.declared;
  EXPECT_EQ(declared[kAccuracy].sum, std::vector{told.right});
  EXPECT_EQ(declared[kAccuracy].count, told.rows);
  EXPECT_EQ(declared[kAccuracy].value(), told.right / told.rows);
  EXPECT_EQ(declared[kConfusion].sum, told.confusion);
  EXPECT_EQ(declared[kConfusion].count, std::nullopt);
  EXPECT_NEAR(declared[kShare].value(), told.right / told.rows, 1e-6);
  EXPECT_EQ(declared[kAgain].value(), metrics.loss);
  ASSERT_EQ(declared[kTable].sum.size(), reference.table().size());
  EXPECT_EQ(declared[kTable].count, told.right);
  for (size_t i = 0; i < reference.table().size(); ++i) {
    EXPECT_NEAR(declared[kTable].sum[i], static_cast<double>(batches) * reference.table()[i], 1e-5);
  }
  ASSERT_EQ(declared[kStream].sum.size(), told.stream.size());
  for (size_t i = 0; i < told.stream.size(); ++i) {
    EXPECT_NEAR(declared[kStream].sum[i], told.stream[i], 1e-4);
  }
  double squares = 0;
  for (const double x : reference.table()) squares += static_cast<double>(batches) * x * x;
  EXPECT_NEAR(declared[kSquares].value(), squares, 1e-5 * squares);
}

TEST(Metrics, AreListed) {
  const CompiledStep compiled = Compile(*Model(), Options(2));
  std::vector<std::string> names;
  for (const MetricInfo& metric : compiled.metrics) {
    names.push_back(metric.name + " " + metric.type.ToString() + (metric.declared ? " *" : "") +
                    (metric.counted ? " counted" : "") + (metric.larger_is_better ? " max" : ""));
    EXPECT_EQ(metric.evaluated, metric.declared || metric.name == "loss");
    EXPECT_EQ(metric.objective, 0);
  }
  EXPECT_THAT(names,
              ElementsAre("loss f32[]", "grad_norm f32[]", "accuracy i32[] * counted max",
                          "confusion i32[7,7] *", "share f32[] * max", "again f32[] *",
                          "table f32[7,8] * counted", "stream f32[2,5,8] *", "squares f32[] *"));
}

TEST(Metrics, AddUpOverMicroSteps) {
  for (const int64_t accumulate : {1, 2, 4}) {
    SCOPED_TRACE(accumulate);
    Running running(Options(accumulate));
    Session& session = running.session;
    for (int64_t step = 0; step < 4; ++step) {
      const TellingReference reference(session);
      Told told;
      for (int64_t micro = 0; micro < accumulate; ++micro) {
        const auto [tokens, targets] = TellingBatch(step * accumulate + micro, kBatch * kSequence);
        told.Add(reference, tokens, targets);
      }
      ExpectTold(Step(session, step), told, reference, accumulate);
      EXPECT_EQ(session.Metrics().declared[kConfusion].sum, told.confusion);
    }
    session.Evaluate(kTargets);
    EXPECT_EQ(session.used_bytes(), session.compiled().plan.arena_bytes);
  }
}

TEST(Metrics, OfAnEvaluationAddUpOverBatches) {
  Running running(Options(1));
  Session& session = running.session;
  for (int64_t step = 0; step < 3; ++step) Step(session, step);
  const TellingReference reference(session);
  Told told;
  StepMetrics all;
  for (int64_t number = 10; number < 14; ++number) {
    Fill(session, number);
    // The last batch is not full.
    if (number == 13) std::fill_n(session.batch().targets.begin() + kSequence, kSequence, -100);
    told.Add(reference, session.batch().tokens, session.batch().targets);
    const std::vector<int64_t> tokens = {3 * kTargets + 4};
    all.AddBatch(session.Evaluate(tokens, 4 * kBatch)[0]);
  }
  EXPECT_EQ(told.rows, 3 * kTargets + 4);
  ExpectTold(all, told, reference, 4);
}

std::vector<float> Weights(Session& session) {
  std::vector<float> all;
  const auto model = Model();
  for (const models::ParameterInfo& parameter : model->parameters()) {
    std::ranges::copy(session.ReadParameter(parameter.name), std::back_inserter(all));
  }
  return all;
}

TEST(Metrics, ChangeNoBitOfTraining) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    CompileOptions options = Options(2);
    options.amp.dtype = dtype;
    Running plain(options, false), telling(options);
    for (int64_t step = 0; step < 5; ++step) {
      const StepMetrics without = Step(plain.session, step), with = Step(telling.session, step);
      EXPECT_EQ(with.loss, without.loss);
      EXPECT_EQ(with.grad_norm, without.grad_norm);
    }
    EXPECT_EQ(Weights(telling.session), Weights(plain.session));
    // Nor does the type in which parameters are stored.
    const auto& programs = telling.session.compiled().programs;
    EXPECT_EQ(programs[0]->tensor(programs[0]->Require("block.0.fc.weight")).type.dtype, dtype);
    EXPECT_EQ(programs[0]->tensor(programs[0]->Require("embed.weight")).type.dtype, dtype);
  }
}

TEST(Metrics, AreFloat32OfLowPrecision) {
  CompileOptions options = Options(3);
  options.amp.dtype = DType::kBFloat16;
  Running running(options);
  Session& session = running.session;
  Step(session, 0);
  // With the same weights, evaluations of each micro-batch add up to the step.
  StepMetrics all;
  for (int64_t micro = 0; micro < 3; ++micro) {
    Fill(session, 3 + micro);
    all.AddBatch(session.Evaluate(std::vector<int64_t>{3 * kTargets}, 3 * kBatch)[0]);
  }
  const StepMetrics step = Step(session, 1);
  for (size_t i = 0; i < step.declared.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(step.declared[i].count, all.declared[i].count);
    ASSERT_EQ(step.declared[i].sum.size(), all.declared[i].sum.size());
    for (size_t k = 0; k < step.declared[i].sum.size(); ++k) {
      EXPECT_NEAR(step.declared[i].sum[k], all.declared[i].sum[k], 1e-5);
    }
  }
  EXPECT_EQ(step.declared[kAccuracy].count, 3 * kTargets);
}

TEST(Metrics, AreTheSameUnderAllPolicies) {
  const auto told = [](const checkpointing::Options& policy, bool drops) {
    CompileOptions options = Options(2);
    options.checkpointing = policy;
    Running running(options);
    std::vector<std::vector<double>> all;
    for (int64_t step = 0; step < 3; ++step) {
      for (const MetricSum& metric : Step(running.session, step).declared) {
        all.push_back(metric.sum);
        all.push_back({metric.count.value_or(0)});
      }
    }
    running.session.Evaluate(kTargets);
    EXPECT_EQ(running.session.used_bytes(), running.session.compiled().plan.arena_bytes);
    int64_t kinds = 0;
    for (const auto& program : running.session.compiled().programs) {
      for (const graph::Tensor& tensor : program->tensors()) {
        kinds += tensor.retention != graph::Retention::kSave;
      }
    }
    EXPECT_EQ(kinds > 0, drops);
    return all;
  };
  const auto kept = told({}, false);
  EXPECT_EQ(told({.policy = checkpointing::Options::Policy::kBlock}, true), kept);
  EXPECT_EQ(told({.policy = checkpointing::Options::Policy::kEvery, .every = 2}, true), kept);
  EXPECT_EQ(told({.policy = checkpointing::Options::Policy::kSelective,
                  .recompute = {{"activations", "block.*"}, "checkpointing.recompute"}},
                 true),
            kept);
  EXPECT_EQ(told({.offload = {{"block.*"}, "checkpointing.offload"}}, true), kept);
}

TEST(Metrics, AskForNoMemory) {
  Running running(Options(3));
  const auto step = [&](int64_t number) {
    running.session.BeginStep(3 * kTargets, 1e-3, 7);
    for (int64_t micro = 0; micro < 3; ++micro) running.session.Run(number, micro);
    running.session.EndStep();
    running.session.TakeMetrics();
    running.session.Evaluate(kTargets);
  };
  const auto [tokens, targets] = TellingBatch(0, kBatch * kSequence);
  std::ranges::copy(tokens, running.session.batch().tokens.begin());
  std::ranges::copy(targets, running.session.batch().targets.begin());
  step(0);
  EXPECT_EQ(CountAllocations([&] { step(1); }), 0);
}

TEST(Metrics, AreMembersOfRows) {
  const CompiledStep compiled = Compile(*Model(), Options(1));
  EXPECT_THAT(
      ModelColumns(compiled),
      ElementsAre("accuracy", "eval_accuracy", "eval_confusion", "share", "eval_share", "again",
                  "eval_again", "eval_table", "eval_stream", "squares", "eval_squares"));
  StepMetrics metrics;
  metrics.loss = 2.5;
  for (const MetricInfo& metric : compiled.metrics) {
    if (!metric.declared) continue;
    MetricSum& sum = metrics.declared.emplace_back();
    sum.sum.assign(static_cast<size_t>(metric.type.shape.elements()), 3);
    if (metric.counted) sum.count = 4;
  }
  metrics.declared[kConfusion].sum[1] = 5;
  const nlohmann::ordered_json row = EvaluationRow(7, compiled.metrics, std::vector{metrics});
  EXPECT_EQ(row.at("step"), 7);
  EXPECT_EQ(row.at("eval_loss"), 2.5);
  EXPECT_EQ(row.at("eval_accuracy"), 0.75);
  EXPECT_EQ(row.at("eval_confusion").at("sum").at(0).dump(), "[3,5,3,3,3,3,3]");
  EXPECT_EQ(row.at("eval_confusion").at("sum").size(), 7u);
  EXPECT_FALSE(row.at("eval_confusion").contains("count"));
  EXPECT_EQ(row.at("eval_table").at("count"), 4);
  EXPECT_EQ(row.at("eval_stream").at("sum").at(1).at(4).size(), 8u);
  EXPECT_EQ(FlatRow(row), row);  // no pair of ranks, whatever its shape
}

// A model that declares the given metrics.
class Declares final : public models::Model {
 public:
  using Declare = std::vector<models::Metric> (*)(models::Layers& g, graph::Value loss);
  explicit Declares(Declare declare) : Model("declares"), declare_(declare) {}
  std::vector<models::Sharding> sharding() const override { return {}; }
  models::CheckpointTable checkpoint_table() const override { return {}; }

 protected:
  Outputs Forward(models::Layers& g, models::Head head) const override {
    const graph::Value table = EmbeddingTable(g, "embed", 4, 4, 1);
    Outputs outputs =
        LanguageModelHead(g, Embedding(g, "x", g.Tokens("tokens"), table), table, head);
    outputs.metrics = declare_(g, outputs.loss);
    return outputs;
  }

 private:
  Declare declare_;
};

std::string Refused(Declares::Declare declare, bool columns = false) {
  const auto model = models::WithParameters(std::make_unique<Declares>(declare));
  return MessageOf<InternalError>([&] {
           const CompiledStep compiled = Compile(*model, Options(2));
           if (columns) ModelColumns(compiled);
         })
      .value_or("none");
}

TEST(Metrics, AreRefusedWhereTheyMakeNoSense) {
  using models::Layers;
  using Metrics = std::vector<models::Metric>;
  EXPECT_EQ(Refused([](Layers&, graph::Value loss) { return Metrics{{"fine", loss}}; }), "none");
  EXPECT_EQ(Refused([](Layers&, graph::Value loss) {
              return Metrics{{"loss", loss}};
            }),
            "metric 'loss' is there already");
  EXPECT_EQ(Refused([](Layers&, graph::Value loss) {
              return Metrics{{"grad_norm", loss}};
            }),
            "metric 'grad_norm' is there already");
  EXPECT_EQ(Refused([](Layers&, graph::Value loss) {
              return Metrics{{"twice", loss}, {"twice", loss}};
            }),
            "metric 'twice' has the name of another tensor");
  EXPECT_EQ(Refused([](Layers&, graph::Value loss) {
              return Metrics{{"embed.weight", loss}};
            }),
            "metric 'embed.weight' has the name of another tensor");
  EXPECT_EQ(Refused([](Layers&, graph::Value) {
              return Metrics{{"none", graph::kNoTensor}};
            }),
            "metric 'none' is the sum of nothing");
  EXPECT_EQ(Refused([](Layers& g, graph::Value loss) {
              return Metrics{{"wide", ops::Cast(g.builder(), loss, DType::kFloat64)}};
            }),
            "metric 'wide' is f64[]; metrics are f32 or i32");
  EXPECT_EQ(Refused([](Layers& g, graph::Value loss) {
              return Metrics{{"counted", loss, g.Tokens("targets")}};
            }),
            "metric 'counted' has a count that is no scalar");
  EXPECT_EQ(Refused(
                [](Layers&, graph::Value loss) {
                  return Metrics{{"mfu", loss}};
                },
                true),
            "metric 'mfu' has the name of another column of metrics.csv");
}

}  // namespace
}  // namespace plimsoll::trainer
