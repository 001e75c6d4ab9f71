// Evaluations judged by a metric that the model declares: the best one, early stopping, and their
// traces in a run and its files.
#include "trainer/resolve/monitor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/thread_pool.h"
#include "data/held_out_batches.h"
#include "data/tokens/token_data.h"
#include "runtime/ranks/world.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/telling_model.h"
#include "trainer/config/load.h"
#include "trainer/held_out.h"
#include "trainer/record/run_reports.h"
#include "trainer/record/step_record.h"
#include "trainer/resolve/source_from.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kSequence = 5;

config::RunConfig Config(const std::string& train) {
  return config::LoadText(
             "model: {family: gpt2, layers: 2, width: 32, heads: 2, sequence: 5, vocab: 7}\n"
             "data: {synthetic: true}\n"
             "train: {micro_batch: 3, eval_sequences: 7" +
                 train + "}\n",
             "run.yaml", {})
      .config;
}

std::unique_ptr<models::Model> Model() {
  return models::WithParameters(std::make_unique<Telling>());
}

CompiledStep Compiled(bool averages = false) {
  CompileOptions options;
  if (averages) options.update.average = ops::WeightAverageOptions{};
  options.micro_batch = 3;
  options.sequence = kSequence;
  options.evaluate = true;
  options.threads = 2;
  return Compile(*Model(), options);
}

TEST(Monitor, IsAMetricOfTheModelAndItsDirection) {
  const CompiledStep compiled = Compiled();
  const auto direction = [&](const std::string& train) {
    const Monitor monitor = MonitorFrom(Config(train), compiled.metrics);
    return monitor.metric.name + (monitor.larger_is_better ? " max" : " min");
  };
  EXPECT_EQ(direction(""), "loss min");
  EXPECT_EQ(direction(", monitor: accuracy"), "accuracy max");
  EXPECT_EQ(direction(", monitor: again"), "again min");
  EXPECT_EQ(direction(", monitor_mode: max"), "loss max");
  EXPECT_EQ(direction(", monitor: accuracy, monitor_mode: min"), "accuracy min");
  const auto refused = [&](const std::string& train) {
    return MessageOf<UserError>([&] { MonitorFrom(Config(train), compiled.metrics); });
  };
  EXPECT_EQ(refused(", monitor: acuracy"),
            "run.yaml:3: train.monitor: 'acuracy' is no metric of this model; it may be loss, "
            "accuracy, share, again, squares");
  EXPECT_EQ(refused(", monitor: grad_norm").value_or("").find("run.yaml:3: train.monitor: "), 0u);
  EXPECT_EQ(refused(", monitor: confusion"),
            "run.yaml:3: train.monitor: 'confusion' is i32[7,7], and no number that can be the "
            "best; it may be loss, accuracy, share, again, squares");
}

// Without evaluations metrics are those of training steps.
TEST(Monitor, SaysThatHeldOutDataAreMissing) {
  const config::RunConfig run =
      config::LoadText(
          "model: {family: bert, task: classification, classes: 3, layers: 1, width: 8, heads: 1, "
          "vocab: 16, sequence: 4}\n"
          "data: {source: synthetic_texts}\n"
          "train: {micro_batch: 3, monitor: f1}\n",
          "run.yaml", {})
          .config;
  EXPECT_EQ(run.train.eval_every, 0);
  EXPECT_THAT(
      MessageOf<UserError>([&] { MonitorFrom(run, {}); }).value_or(""),
      testing::StartsWith(
          "run.yaml:3: train.monitor: 'f1' is no metric of training steps, and this run has "
          "no evaluations, which need held-out data and train.eval_every; it may be "));
}

// The metrics of averaged weights follow those of the weights; values behind values.
TEST(Monitor, MayBeOfAveragedWeights) {
  const CompiledStep compiled = Compiled(/*averages=*/true);
  const Monitor monitor = MonitorFrom(Config(", monitor: ema_accuracy"), compiled.metrics);
  EXPECT_TRUE(monitor.larger_is_better);
  const Monitor loss = MonitorFrom(Config(", monitor: ema_loss"), compiled.metrics);
  EXPECT_FALSE(loss.larger_is_better);
  std::vector<StepMetrics> values(2 * compiled.objectives.size());
  values.front().loss = 1;
  values.at(compiled.objectives.size()).loss = 2;
  EXPECT_EQ(loss.metric.Value(values), 2);
  std::vector<std::string> names;
  for (const EvaluatedMetric& metric : EvaluatedMetrics(compiled.metrics)) {
    if (metric.info.scalar()) names.push_back(metric.name);
  }
  EXPECT_THAT(names,
              testing::ElementsAre("loss", "accuracy", "share", "again", "squares", "ema_loss",
                                   "ema_accuracy", "ema_share", "ema_again", "ema_squares"));
}

// A run's evaluations, with training in between.
struct Evaluations {
  std::vector<double> losses, accuracies;
  std::vector<bool> best;
  std::vector<std::string> texts;
  EvaluationState state;
  std::vector<int64_t> stops;  // steps after which early stopping would have ended the run
};

Evaluations Evaluate(const std::string& train, int64_t count, EvaluationState state = {}) {
  const config::RunConfig config = Config(train);
  runtime::World world;
  Ranks ranks(world, Mesh());
  const data::TokenData source(DataFrom(config, Telling::kVocab),
                               {.seed = 1, .batch = 3, .sequence = kSequence}, Telling::kVocab,
                               /*synthetic=*/true);
  HeldOut held_out(config, source, ranks);
  const data::HeldOutBatches batches(source.HeldOut(7), 3);
  EXPECT_EQ(batches.count(), 3);  // the last is not full

  ThreadPool pool(2);
  Session session(Compiled(), pool);
  session.Initialize(*Model(), 3);
  const Monitor monitor = MonitorFrom(config, session.metrics());
  Evaluations all;
  all.state = state;
  for (int64_t i = 0; i < count; ++i) {
    const HeldOut::Evaluation evaluation =
        held_out.Evaluate(session, monitor, 10 * (i + 1), all.state, [] {});
    const TellingReference reference(session);
    Told told;
    for (int64_t k = 0; k < batches.count(); ++k) {
      std::vector<int32_t> tokens(3 * kSequence), targets(3 * kSequence);
      const auto slot = [](const char* name, std::vector<int32_t>& values) {
        return graph::Slot{name,
                           {graph::DType::kInt32, {3, kSequence}},
                           std::as_writable_bytes(std::span(values))};
      };
      const std::vector<graph::Slot> slots = {slot("tokens", tokens), slot("targets", targets)};
      batches.Fill(k, slots);
      told.Add(reference, tokens, targets);
    }
    EXPECT_EQ(told.rows, 7 * kSequence);
    const MetricSum& accuracy = evaluation.metrics[0].declared[0];
    EXPECT_EQ(accuracy.sum[0], told.right);
    EXPECT_EQ(accuracy.count, told.rows);
    EXPECT_EQ(evaluation.metrics[0].declared[1].sum, told.confusion);
    all.losses.push_back(evaluation.metrics[0].loss);
    all.accuracies.push_back(accuracy.value());
    all.best.push_back(evaluation.best);
    all.texts.push_back(evaluation.text);
    if (GainsNoMore(config, all.state)) all.stops.push_back(i);
    // Learns one thing after the other, and forgets the earlier ones.
    session.BeginStep(3 * kSequence, 0.3, 1);
    for (size_t k = 0; k < 3 * kSequence; ++k) {
      session.batch().tokens[k] = static_cast<int32_t>(k) % Telling::kVocab;
      session.batch().targets[k] = static_cast<int32_t>(k + i) % Telling::kVocab;
    }
    session.Run(i, 0);
  }
  return all;
}

// For each of `values`, whether it is better than all before.
std::vector<bool> Best(const std::vector<double>& values, bool larger) {
  std::vector<bool> best;
  double so_far = larger ? -1e9 : 1e9;
  for (const double value : values) {
    best.push_back(larger ? value > so_far : value < so_far);
    if (best.back()) so_far = value;
  }
  return best;
}

TEST(HeldOut, TheBestIsThatOfTheMetricInItsDirection) {
  const Evaluations by_loss = Evaluate("", 12);
  EXPECT_EQ(by_loss.best, Best(by_loss.losses, false));
  EXPECT_EQ(by_loss.state.best, std::ranges::min(by_loss.losses));
  EXPECT_EQ(by_loss.state.monitor, "loss");

  const Evaluations by_accuracy = Evaluate(", monitor: accuracy", 12);
  EXPECT_EQ(by_accuracy.losses, by_loss.losses);
  EXPECT_EQ(by_accuracy.best, Best(by_accuracy.accuracies, true));
  EXPECT_NE(by_accuracy.best, by_loss.best);
  EXPECT_EQ(by_accuracy.state.best, std::ranges::max(by_accuracy.accuracies));
  const auto best = std::ranges::max_element(by_accuracy.accuracies);
  EXPECT_EQ(by_accuracy.state.best_step, 10 * (best - by_accuracy.accuracies.begin() + 1));
  EXPECT_TRUE(by_accuracy.state.larger_is_better);

  const Evaluations worst = Evaluate(", monitor: accuracy, monitor_mode: min", 12);
  EXPECT_EQ(worst.best, Best(by_accuracy.accuracies, false));
  EXPECT_NE(worst.best, by_accuracy.best);
}

TEST(HeldOut, StopsWhereTheMetricGainsNoMore) {
  const Evaluations by_accuracy = Evaluate(", monitor: accuracy, early_stop: 2", 12);
  std::vector<int64_t> stops;
  int64_t without = 0;
  const std::vector<bool> best = Best(by_accuracy.accuracies, true);
  for (int64_t i = 0; i < 12; ++i) {
    without = best[i] ? 0 : without + 1;
    if (without >= 2) stops.push_back(i);
  }
  EXPECT_EQ(by_accuracy.stops, stops);
  EXPECT_FALSE(stops.empty());
  EXPECT_NE(Evaluate(", early_stop: 2", 12).stops, stops);
}

TEST(HeldOut, ForgetsWhatWasTheBestByAnotherMetric) {
  const EvaluationState loss{.last = 5, .best = 0.1, .best_step = 5, .without_gain = 3};
  EXPECT_EQ(Evaluate("", 1, loss).state.without_gain, 4);
  const Evaluations other = Evaluate(", monitor: accuracy", 1, loss);
  EXPECT_TRUE(other.best[0]);
  EXPECT_EQ(other.state.without_gain, 0);
  EXPECT_EQ(other.state.best, other.accuracies[0]);
}

TEST(HeldOut, TellsAllNumbersInOneLine) {
  const Evaluations all = Evaluate(", monitor: accuracy", 12);
  ExpectText(all.texts[0], {"evaluation after 10 steps: held-out loss ",
                            fmt::format(", accuracy {:.4g}, share ", all.accuracies[0])});
  EXPECT_THAT(all.texts[0], Not(HasSubstr("confusion")));
  EXPECT_THAT(all.texts[0], Not(HasSubstr("best")));
  for (size_t i = 0; i < all.texts.size(); ++i) {
    EXPECT_EQ(all.texts[i].find("(best accuracy 0.") == std::string::npos, all.best[i]);
  }
}

// The rows of a run of two objectives, one of which declares a metric.
TEST(RunReports, HaveColumnsAndCurvesForEachMetric) {
  const TempFolder folder;
  const config::RunConfig config =
      config::LoadText(
          "model: {family: gpt2, layers: 2, width: 32, heads: 2, sequence: 5, vocab: 7}\n"
          "data: {synthetic: true}\nrun: {dir: " +
              (folder / "run") + "}\n",
          "run.yaml", {})
          .config;
  RunDirectory directory(config, true);
  directory.Begin();
  reports::RunFacts facts;
  facts.objectives = {"critic", "generator"};
  facts.metrics = {"critic.accuracy"};
  facts.monitor = "critic.accuracy";
  facts.larger_is_better = true;
  facts.stack = {{"arena_bytes", 1}};
  CompiledStep compiled;
  compiled.objectives = {{.name = "critic"}, {.name = "generator"}};
  compiled.metrics = {
      {.name = "critic.loss", .evaluated = true},
      {.name = "critic.accuracy", .declared = true, .evaluated = true, .larger_is_better = true},
      {.name = "critic.confusion",
       .type = {graph::DType::kInt32, {2, 2}},
       .declared = true,
       .evaluated = true},
      {.name = "generator.loss", .objective = 1, .evaluated = true}};
  {
    RunReports run(config, directory, facts, 0, {}, ModelColumns(compiled));
    StepReport report;
    report.objectives = {{.name = "critic", .loss = 0.7, .lr = 1e-3, .grad_norm = 2},
                         {.name = "generator", .loss = 0.6, .lr = 1e-2, .grad_norm = 3}};
    report.metrics = {{"critic.accuracy", 0.25}};
    const ordered_json row = MetricsRow(report, std::nullopt);
    EXPECT_EQ(row.at("loss"), 0.7);  // the first one's
    EXPECT_EQ(row.at("generator.loss"), 0.6);
    EXPECT_EQ(row.at("generator.lr"), 1e-2);
    EXPECT_EQ(row.at("critic.grad_norm"), 2);
    EXPECT_EQ(row.at("critic.accuracy"), 0.25);
    run.Add(row);
    StepMetrics critic{.loss = 0.5}, generator{.loss = 0.4};
    critic.declared = {{.sum = {0.75}}, {.sum = {1, 2, 3, 4}}};
    const ordered_json evaluation =
        EvaluationRow(1, compiled.metrics, std::vector{critic, generator});
    EXPECT_EQ(evaluation.dump(),
              R"({"step":1,"eval_loss":0.5,"eval_critic.loss":0.5,"eval_critic.accuracy":0.75,)"
              R"("eval_critic.confusion":{"sum":[[1,2],[3,4]]},"eval_generator.loss":0.4})");
    run.Add(evaluation);
    run.End("done");
  }
  const auto text = [&](const std::string& file) {
    std::ifstream in(directory.File(file));
    std::stringstream all;
    all << in.rdbuf();
    return all.str();
  };
  const std::string csv = text("metrics.csv");
  const std::string header = csv.substr(0, csv.find('\n'));
  for (const char* column :
       {"critic.loss", "critic.lr", "generator.grad_norm", "generator.loss_limit",
        "critic.accuracy", "eval_critic.accuracy", "eval_generator.loss"}) {
    EXPECT_THAT(header, HasSubstr(std::string(",") + column));
  }
  EXPECT_THAT(csv, HasSubstr(",\"{\"\"sum\"\":[[1,2],[3,4]]}\","));
  EXPECT_EQ(std::ranges::count(csv, '\n'), 3);

  const std::string html = text("report.html");
  const size_t from = html.find("id=\"data\">") + 10;
  const json page = json::parse(html.substr(from, html.find("</script>", from) - from));
  std::map<std::string, json> views;
  for (const json& view : page.at("views")) views[view.value("title", "")] = view;
  const auto names = [&](const char* title) {
    std::vector<std::string> found;
    for (const json& series : views.at(title).at("series")) found.push_back(series.at("name"));
    return found;
  };
  EXPECT_THAT(names("Loss"),
              testing::ElementsAre("critic.loss, training", "critic.loss, held out",
                                   "generator.loss, training", "generator.loss, held out"));
  EXPECT_THAT(names("Learning rate"), testing::ElementsAre("critic.lr", "generator.lr"));
  EXPECT_THAT(names("critic.accuracy"), testing::ElementsAre("training", "held out"));
  EXPECT_EQ(views.at("critic.accuracy").at("series").at(0).at("y").dump(), "[0.25]");
  EXPECT_EQ(views.at("critic.accuracy").at("series").at(1).at("y").dump(), "[0.75]");
  EXPECT_EQ(views.at("Learning rate").at("series").at(1).at("y").dump(), "[0.01]");
  EXPECT_THAT(views.at("").dump(), HasSubstr("best held-out critic.accuracy"));

  std::string events;
  for (const auto& file : std::filesystem::directory_iterator(directory.path())) {
    const std::string name = file.path().filename();
    if (name.starts_with("events.out.tfevents.")) events += text(name);
  }
  for (const char* tag :
       {"train/generator.loss", "train/critic.accuracy", "eval/critic.accuracy"}) {
    EXPECT_THAT(events, HasSubstr(tag));
  }
}

}  // namespace
}  // namespace plimsoll::trainer
