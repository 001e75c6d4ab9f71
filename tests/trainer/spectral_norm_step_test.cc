// Weights divided by their spectral norm, through training: the vectors that a model carries for
// it take one power iteration a step, whatever is recomputed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "models/layers.h"
#include "models/model.h"
#include "ops/linear/linear.h"
#include "ops/loss/binary_cross_entropy.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;
using graph::Value;
using Policy = checkpointing::Options::Policy;

constexpr int64_t kRows = 4, kInputs = 6, kHidden = 5;
const char* const kLayers[] = {"block.0", "block.1", "out"};

// Three layers of which each weight has a spectral norm of 1. With two objectives, the second one
// trains a weight in front of them, `maker.weight`, to be taken for real.
class Critic final : public models::Model {
 public:
  explicit Critic(bool adversarial) : Model("critic"), adversarial_(adversarial) {}

  std::vector<models::Objective> objectives() const override {
    if (!adversarial_) return {{}};
    return {{.name = "critic", .parameters = {"block.*", "out.*"}},
            {.name = "maker", .parameters = {"maker.*"}}};
  }

 protected:
  Outputs Forward(models::Layers& g, models::Head) const override {
    Value x = g.Input("x", DType::kFloat32, {g.batch().batch, kInputs});
    if (g.objective() == "maker") x = Linear(g, "maker", x, kInputs, {.bias = false});
    for (const char* const layer : kLayers) {
      const bool last = layer == kLayers[2];
      const graph::Scope scope(g.builder(), layer);
      const Value weight = g.Parameter("weight", {last ? 1 : kHidden, g.shape(x).dim(1)},
                                       {models::Initializer::kNormal, 0.5});
      x = ops::Linear(g.builder(), x, SpectralNorm(g, "norm", weight), graph::kNoTensor, "fc");
      if (!last) x = Gelu(g, x, models::Activation::kGeluTanh);
    }
    const ops::BinaryCrossEntropy real =
        ops::BinaryCrossEntropyWithLogits(g.builder(), x, g.TokenWeight(), 0.9, "real");
    return {.loss = real.loss, .metrics = {{"right", real.right}}};
  }

 private:
  bool adversarial_;
};

std::unique_ptr<models::Model> Make(bool adversarial = false) {
  return models::WithParameters<models::Model>(std::make_unique<Critic>(adversarial));
}

CompileOptions Options(int64_t accumulate) {
  CompileOptions options;
  options.micro_batch = kRows;
  options.sequence = 1;
  options.accumulate = accumulate;
  options.evaluate = true;
  options.threads = 2;
  options.update.skips = true;
  options.update.clip_grad_norm = 0;
  return options;
}

// The inputs of a draw, which depend on its number alone; with `nan`, the first is NaN.
void FillDraw(const Session& session, int64_t draw, int64_t micro_step = 0, bool nan = false) {
  auto random = static_cast<uint32_t>(draw) * 7919 + 12345;
  for (const Slot& slot : session.slots(micro_step)) {
    if (slot.name != "x") continue;
    for (float& value : slot.values<float>()) {
      random = random * 1664525 + 1013904223;
      value = static_cast<float>(random >> 8) * 0x1p-23f - 0.5f;
    }
    if (nan) slot.values<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  }
}

// All runs of a step that has begun.
void RunAll(Session& session, int64_t step, bool nan = false) {
  const StepPrograms& programs = session.compiled().step;
  for (int64_t run = 0; run < programs.runs(); ++run) {
    const StepRun what = programs.At(run);
    for (int64_t i = 0; i < what.micro_steps; ++i) {
      FillDraw(session, step * programs.draws + what.draw + i, i, nan);
    }
    session.Run(step, run);
  }
}

struct Running {
  explicit Running(const CompileOptions& options)
      : pool(2), session(Compile(*Make(), options), pool, {.poison = true, .check_arena = true}) {
    session.Initialize(*Make(), 1);
  }
  // Of a NaN among the inputs the step is skipped.
  StepMetrics Step(int64_t step, bool nan = false) {
    session.BeginStep(kRows * session.accumulate(), 1e-1, 1);
    RunAll(session, step, nan);
    return session.Metrics();
  }
  ThreadPool pool;
  Session session;
};

void Normalize(std::vector<double>& x) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  for (double& value : x) value /= std::sqrt(squares);
}

struct Vectors {
  std::vector<double> u, v;

  static Vectors Of(Session& session, const std::string& layer) {
    const std::vector<float> u = session.Read<float>(layer + ".norm.u");
    const std::vector<float> v = session.Read<float>(layer + ".norm.v");
    return {{u.begin(), u.end()}, {v.begin(), v.end()}};
  }
  // uᵀ·W·v.
  double Norm(const std::vector<float>& weight) const {
    double sigma = 0;
    for (size_t i = 0; i < weight.size(); ++i) {
      sigma += u[i / v.size()] * weight[i] * v[i % v.size()];
    }
    return sigma;
  }
  void Iterate(const std::vector<float>& weight) {
    for (size_t o = 0; o < u.size(); ++o) {
      u[o] = 0;
      for (size_t k = 0; k < v.size(); ++k) u[o] += weight[o * v.size() + k] * v[k];
    }
    Normalize(u);
    for (size_t k = 0; k < v.size(); ++k) {
      v[k] = 0;
      for (size_t o = 0; o < u.size(); ++o) v[k] += weight[o * v.size() + k] * u[o];
    }
    Normalize(v);
  }
};

void ExpectNear(const Vectors& vectors, const Vectors& expected) {
  for (size_t i = 0; i < expected.u.size(); ++i) EXPECT_NEAR(vectors.u[i], expected.u[i], 1e-5);
  for (size_t i = 0; i < expected.v.size(); ++i) EXPECT_NEAR(vectors.v[i], expected.v[i], 1e-5);
}

// As PyTorch's, which make as many: the norm is near the largest singular value from the start.
TEST(SpectralNormStep, BeginsAfterFifteenIterations) {
  CompileOptions low = Options(1);
  low.amp.dtype = DType::kBFloat16;
  for (const CompileOptions& options : {Options(1), low}) {
    Running running(options);
    for (const std::string layer : kLayers) {
      SCOPED_TRACE(layer);
      const Vectors begun = Vectors::Of(running.session, layer);
      const std::vector<float> weight = running.session.ReadParameter(layer + ".weight");
      Vectors expected = begun;
      std::ranges::fill(expected.v, 1 / std::sqrt(static_cast<double>(expected.v.size())));
      for (int i = 0; i < 15; ++i) expected.Iterate(weight);
      ExpectNear(begun, expected);
      for (int i = 0; i < 1000; ++i) expected.Iterate(weight);
      EXPECT_NEAR(begun.Norm(weight), expected.Norm(weight), 0.02 * expected.Norm(weight));
    }
  }
}

TEST(SpectralNormStep, IteratesOnceAStep) {
  for (const int64_t accumulate : {1, 3}) {
    SCOPED_TRACE(accumulate);
    Running running(Options(accumulate));
    for (int64_t step = 0; step < 3; ++step) {
      std::vector<Vectors> expected;
      for (const std::string layer : kLayers) {
        expected.push_back(Vectors::Of(running.session, layer));
        expected.back().Iterate(running.session.Read<float>(layer + ".weight"));
      }
      running.Step(step);
      for (size_t i = 0; i < expected.size(); ++i) {
        SCOPED_TRACE(kLayers[i]);
        ExpectNear(Vectors::Of(running.session, kLayers[i]), expected[i]);
      }
    }
    EXPECT_EQ(running.session.used_bytes(), running.session.compiled().plan.arena_bytes);
  }
}

std::vector<float> StateOf(Session& session) {
  std::vector<float> state;
  for (const std::string layer : kLayers) {
    for (const char* const tensor : {".weight", ".norm.u", ".norm.v"}) {
      const std::vector<float> values = session.Read<float>(layer + tensor);
      state.insert(state.end(), values.begin(), values.end());
    }
  }
  return state;
}

// Losses, weights and vectors of three steps.
std::vector<float> Trained(const CompileOptions& options) {
  Running running(options);
  std::vector<float> all;
  for (int64_t step = 0; step < 3; ++step) {
    all.push_back(static_cast<float>(running.Step(step).loss));
    const std::vector<float> state = StateOf(running.session);
    all.insert(all.end(), state.begin(), state.end());
  }
  return all;
}

// Nodes of the kind that run in the backward pass once more.
int64_t Again(const CompileOptions& options, const std::string& op) {
  const CompiledStep compiled = Compile(*Make(), options);
  int64_t count = 0;
  for (const auto& program : compiled.programs) {
    count += std::ranges::count_if(program->nodes(), [&](const graph::Node& node) {
      return node.phase == graph::Phase::kRecompute && node.op->name == op;
    });
  }
  return count;
}

TEST(SpectralNormStep, HasTheSameBitsUnderAllPolicies) {
  for (const int64_t accumulate : {1, 3}) {
    SCOPED_TRACE(accumulate);
    CompileOptions options = Options(accumulate);
    const std::vector<float> kept = Trained(options);
    EXPECT_EQ(Again(options, "power_iteration"), 0);
    for (const bool in_backward : {false, true}) {
      if (in_backward) options.update_in_backward.emplace();
      // The vectors are read behind the blocks, where they become the states' new values, and kept.
      options.checkpointing = {.policy = Policy::kBlock};
      EXPECT_EQ(Again(options, "power_iteration"), 0);
      EXPECT_GT(Again(options, "spectral_norm"), 0);
      EXPECT_EQ(Trained(options), kept);
      options.checkpointing = {
          .policy = Policy::kSelective,
          .recompute = {{"power_iteration", "spectral_norm"}, "checkpointing.recompute"}};
      EXPECT_GT(Again(options, "power_iteration"), 0);
      EXPECT_EQ(Trained(options), kept);
      options.checkpointing.recompute.patterns = {"spectral_norm"};
      EXPECT_EQ(Again(options, "power_iteration"), 0);
      EXPECT_GT(Again(options, "spectral_norm"), 0);
      EXPECT_EQ(Trained(options), kept);
    }
  }
}

TEST(SpectralNormStep, HasTheSameBitsWithSeveralMicroStepsInAProgram) {
  CompileOptions options = Options(3);
  options.checkpointing = {.policy = Policy::kBlock};
  const std::vector<float> apart = Trained(options);
  options.micro_steps_per_program = 3;
  for (const bool blocks_first : {false, true}) {
    options.blocks_first = blocks_first;
    EXPECT_EQ(Trained(options), apart) << blocks_first;
  }
}

TEST(SpectralNormStep, HasTheSameBitsWithWeightsOnTheHost) {
  CompileOptions options = Options(3);
  options.checkpointing = {.policy = Policy::kBlock};
  const std::vector<float> resident = Trained(options);
  options.on_host = {.weights = true, .gradients = true, .state = true, .least_bytes = 0};
  EXPECT_EQ(Trained(options), resident);
}

TEST(SpectralNormStep, StaysWhereAStepIsSkippedOrNotTaken) {
  Running running(Options(2));
  running.Step(0);
  const std::vector<float> state = StateOf(running.session);
  EXPECT_EQ(running.Step(1, /*nan=*/true).skipped, 1);
  EXPECT_EQ(StateOf(running.session), state);
  FillDraw(running.session, 100);
  const int64_t targets = kRows;
  EXPECT_TRUE(std::isfinite(running.session.Evaluate({&targets, 1}, kRows)[0].loss));
  EXPECT_EQ(StateOf(running.session), state);
}

// What the layers make of a weight in an evaluation: the loss follows from the vectors as they are.
TEST(SpectralNormStep, DividesByTheCarriedVectorsInEvaluations) {
  Running running(Options(1));
  for (int64_t step = 0; step < 2; ++step) running.Step(step);
  FillDraw(running.session, 100);
  const auto x = running.session.slot("x").values<float>();
  double loss = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    std::vector<double> h(x.begin() + row * kInputs, x.begin() + (row + 1) * kInputs);
    for (const std::string layer : kLayers) {
      const Vectors vectors = Vectors::Of(running.session, layer);
      const std::vector<float> weight = running.session.Read<float>(layer + ".weight");
      const double sigma = vectors.Norm(weight);
      std::vector<double> next(vectors.u.size(), 0);
      for (size_t i = 0; i < weight.size(); ++i) {
        next[i / vectors.v.size()] += weight[i] * h[i % vectors.v.size()];
      }
      for (double& value : next) {
        value /= sigma;
        if (layer == "out") continue;
        value *=
            0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (value + 0.044715 * value * value * value)));
      }
      h = next;
    }
    loss += (std::log1p(std::exp(h[0])) - 0.9 * h[0]) / kRows;
  }
  const int64_t targets = kRows;
  EXPECT_NEAR(running.session.Evaluate({&targets, 1}, kRows)[0].loss, loss, 1e-5);
}

// Weights and vectors are float32, and the quotient is rounded where it is read.
TEST(SpectralNormStep, WorksInFloat32InAnyPrecision) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    CompileOptions options = Options(2);
    options.amp.dtype = dtype;
    if (dtype == DType::kFloat16) options.update.loss_scale = ops::LossScaleOptions{};
    const CompiledStep compiled = Compile(*Make(), options);
    const graph::Program& program = *compiled.programs[0];
    int64_t norms = 0;
    for (const graph::Node& node : program.nodes()) {
      if (node.op->name == "linear") {
        EXPECT_EQ(program.tensor(node.inputs[1]).type.dtype, dtype);
      }
      if (!node.op->name.starts_with("spectral_norm") && node.op->name != "power_iteration") {
        continue;
      }
      ++norms;
      for (const graph::TensorId id : node.inputs) {
        if (id == graph::kNoTensor) continue;
        EXPECT_EQ(program.tensor(id).type.dtype, DType::kFloat32);
      }
    }
    EXPECT_EQ(norms, 9);
    const std::vector<float> low = Trained(options), wide = Trained(Options(2));
    for (size_t i = 0; i < wide.size(); ++i) EXPECT_NEAR(low[i], wide[i], 0.03) << i;
  }
}

// Both objectives see the critic in training, and each takes its vectors on, as PyTorch's modules
// do: of a step, the first one with the weights of before, the second with those it has left.
TEST(SpectralNormStep, IteratesInTheUpdatesOfAllObjectives) {
  CompileOptions options = Options(2);
  options.evaluate = false;
  options.checkpointing = {.policy = Policy::kBlock};
  ThreadPool pool(2);
  Session session(Compile(*Make(/*adversarial=*/true), options), pool, {.check_arena = true});
  session.Initialize(*Make(/*adversarial=*/true), 1);
  const ObjectiveStep objectives[] = {{{2 * kRows}, 0.1}, {{2 * kRows}, 0.1}};
  for (int64_t step = 0; step < 2; ++step) {
    Vectors expected = Vectors::Of(session, "block.0");
    const std::vector<float> before = session.Read<float>("block.0.weight");
    session.BeginStep(objectives, 1);
    RunAll(session, step);
    const std::vector<float> after = session.Read<float>("block.0.weight");
    EXPECT_NE(after, before);
    expected.Iterate(before);
    expected.Iterate(after);
    ExpectNear(Vectors::Of(session, "block.0"), expected);
  }
}

}  // namespace
}  // namespace plimsoll::trainer
