// Whole steps on a GPU: the same losses as on the CPU, and the same bits for all options of the
// executor and all checkpointing policies, in every type and for every way to store the optimizer's
// state.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "checkpointing/retention_policy.h"
#include "ops/cuda/choices/choice_options.h"
#include "runtime/cuda/gpu_memory.h"
#include "tests/support/needs_cuda.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;
using Policy = checkpointing::Options::Policy;

models::ModelSpec SpecOf(const std::string& model) {
  return model == "Llama" ? TinyLlama() : TinyGpt2();
}

TinyRun RunOf(const std::string& model, DType dtype = DType::kFloat32) {
  TinyRun run;
  run.spec = SpecOf(model);
  run.cuda = true;
  run.steps = 6;
  run.amp.dtype = dtype;
  if (dtype == DType::kFloat16) run.update.loss_scale = ops::LossScaleOptions{};
  return run;
}

// Expects the same bits in all results of a run.
// Steps with the same tokens, some of them skipped, in every type and with several micro-steps.
TEST(CudaSkippedSteps, LeaveNoTrace) {
  PLIMSOLL_NEEDS_CUDA
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const int64_t accumulate : {1, 3}) {
      SCOPED_TRACE(std::string(graph::Name(dtype)) + " " + std::to_string(accumulate));
      TinyRun run = RunOf("Gpt2", dtype);
      run.accumulate = accumulate;
      run.repeat = true;
      run.steps = 4;
      const TinyResult plain = Train(run);
      run.update.skips = true;
      ExpectSameNumbers(Train(run), plain);
      run.steps = 6;
      run.loss_limits = {{1, 0.5f}, {4, 0.5f}, {5, 100.0f}};
      const TinyResult skipping = Train(run);
      EXPECT_EQ(skipping.weights, plain.weights);
      EXPECT_EQ(skipping.losses.back(), plain.losses.back());
      EXPECT_EQ(skipping.last.skipped, plain.last.skipped + 2);
      EXPECT_EQ(skipping.last.skipped_in_a_row, 0);
    }
  }
}

class CudaTraining : public testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  void SetUp() override{PLIMSOLL_NEEDS_CUDA}

  TinyRun Run() const {
    return RunOf(std::get<0>(GetParam()), std::get<1>(GetParam()));
  }
};

TEST_P(CudaTraining, LossesAreTheCpus) {
  for (int64_t accumulate : {1, 3}) {
    SCOPED_TRACE(accumulate);
    TinyRun run = Run();
    run.steps = 20;
    run.accumulate = accumulate;
    run.ignored = 0.2;
    run.evaluate = true;
    const TinyResult on_gpu = Train(run);
    run.cuda = false;
    const TinyResult on_cpu = Train(run);
    // For numbers near 4.6: float32 differs in the order of sums; 16 bits are also rounded
    // elsewhere.
    const double tolerance = run.amp.dtype == DType::kFloat32 ? 1e-5 : 4e-3;
    for (int step = 0; step < run.steps; ++step) {
      EXPECT_NEAR(on_gpu.losses[step], on_cpu.losses[step], tolerance * on_cpu.losses[step])
          << step;
      EXPECT_NEAR(on_gpu.grad_norms[step], on_cpu.grad_norms[step],
                  20 * tolerance * on_cpu.grad_norms[step])
          << step;
    }
  }
}

// Gradients in bf16: near the CPU's, and the same bits whatever is kept.
TEST_P(CudaTraining, LowGradientsAreTheCpus) {
  checkpointing::Options block;
  block.policy = Policy::kBlock;
  for (int64_t accumulate : {1, 3}) {
    SCOPED_TRACE(accumulate);
    TinyRun run = Run();
    run.steps = 10;
    run.accumulate = accumulate;
    run.amp.low_gradients = true;
    const TinyResult on_gpu = Train(run);
    run.checkpointing = block;
    ExpectSameNumbers(Train(run), on_gpu);
    run.cuda = false;
    const TinyResult on_cpu = Train(run);
    for (int step = 0; step < run.steps; ++step) {
      EXPECT_NEAR(on_gpu.losses[step], on_cpu.losses[step], 4e-3 * on_cpu.losses[step]) << step;
      EXPECT_NEAR(on_gpu.grad_norms[step], on_cpu.grad_norms[step], 0.04 * on_cpu.grad_norms[step])
          << step;
    }
  }
}

// With stored scores, dropout draws what blockwise attention draws; in what is planned.
TEST_P(CudaTraining, StoredScoresTrainAsBlockwiseAttention) {
  TinyRun run = Run();
  run.steps = 10;
  if (std::get<0>(GetParam()) == "Gpt2") run.spec.dropout = 0.1;
  const TinyResult blockwise = Train(run);
  run.stored_attention = true;
  run.executor.check_arena = true;
  const TinyResult stored = Train(run);
  EXPECT_EQ(stored.used_bytes, stored.arena_bytes);
  const double tolerance = run.amp.dtype == DType::kFloat32 ? 1e-5 : 4e-3;
  for (int step = 0; step < run.steps; ++step) {
    EXPECT_NEAR(stored.losses[step], blockwise.losses[step], tolerance * blockwise.losses[step])
        << step;
  }
  run.executor = {};
  run.checkpointing.policy = Policy::kBlock;
  ExpectSameNumbers(Train(run), stored);
  run.checkpointing = {};
  run.checkpointing.offload.patterns = {"*.probabilities*"};
  ExpectSameNumbers(Train(run), stored);
}

// Steps that change the state early and late, copied in many groups and in one.
TEST_P(CudaTraining, ACopyOfTheStateIsThatBetweenTwoSteps) {
  TinyRun plain = Run();
  plain.accumulate = 2;
  TinyRun on_host = plain;
  on_host.state_on_host = true;
  TinyRun averaged = plain;
  averaged.update.average = ops::WeightAverageOptions{.decay = 0.75};
  TinyRun early = plain;
  early.spec.layers = 4;
  early.accumulate = 1;
  early.update.clip_grad_norm = 0;
  early.update_in_backward = true;
  TinyRun blocks = early;
  blocks.accumulate = blocks.micro_steps_per_program = 2;
  blocks.blocks_first = true;
  TinyRun all_on_host = early;
  all_on_host.weights_on_host = all_on_host.state_on_host = true;
  int number = 0;
  for (TinyRun run : {plain, on_host, averaged, early, blocks, all_on_host}) {
    run.steps = 3;
    const TinyState between = Train(run).state;
    run.steps = 6;
    const TinyResult expected = Train(run);
    run.copy_after = 2;
    for (const runtime::Launch launch : {runtime::Launch::kRecorded, runtime::Launch::kAwaited}) {
      for (const int64_t at_once : {int64_t{1}, int64_t{1} << 30}) {
        SCOPED_TRACE(testing::Message() << "run " << number << ", launch "
                                        << static_cast<int>(launch) << ", at once " << at_once);
        run.executor.launch = launch;
        run.copied_at_once = at_once;
        const TinyResult copied = Train(run);
        ExpectSameNumbers(copied, expected);
        EXPECT_EQ(copied.copied, between);
        EXPECT_NE(copied.copied, copied.state);
      }
    }
    ++number;
  }
}

TEST_P(CudaTraining, EveryWayToRunGivesTheSameBits) {
  TinyRun run = Run();
  run.accumulate = 3;
  const TinyResult expected = Train(run);
  for (double loss : expected.losses) EXPECT_TRUE(std::isfinite(loss));
  {
    SCOPED_TRACE("again");
    ExpectSameNumbers(Train(run), expected);
  }
  {
    SCOPED_TRACE("node by node");
    TinyRun eager = run;
    for (const runtime::Launch launch : {runtime::Launch::kByNode, runtime::Launch::kAwaited}) {
      eager.executor.launch = launch;
      ExpectSameNumbers(Train(eager), expected);
    }
  }
  {
    SCOPED_TRACE("all micro-steps in one program");
    TinyRun together = run;
    together.micro_steps_per_program = run.accumulate;
    ExpectSameNumbers(Train(together), expected);
  }
  {
    SCOPED_TRACE("blocks first");
    TinyRun blocks = run;
    blocks.micro_steps_per_program = run.accumulate;
    blocks.blocks_first = true;
    ExpectSameNumbers(Train(blocks), expected);
  }
  {
    SCOPED_TRACE("poisoned");
    TinyRun poisoned = run;
    poisoned.executor.poison = true;
    ExpectSameNumbers(Train(poisoned), expected);
  }
  {
    SCOPED_TRACE("with all instruments");
    TinyRun checked = run;
    checked.executor.poison = checked.executor.check_arena = checked.executor.profile = true;
    // With a loss scale that is too high at first, infinities are expected.
    checked.executor.check_finite = run.amp.dtype != DType::kFloat16;
    const TinyResult result = Train(checked);
    ExpectSameNumbers(result, expected);
    EXPECT_EQ(result.used_bytes, result.arena_bytes);
  }
}

// Kernels are launched one by one, on memory that is taken and given back in between.
TEST_P(CudaTraining, TheCachingAllocatorChangesNoBit) {
  TinyRun run = Run();
  run.accumulate = 3;
  run.evaluate = true;
  TinyRun offloaded = run;
  offloaded.checkpointing.policy = Policy::kBlock;
  offloaded.checkpointing.offload.patterns = {"*"};
  TinyRun copied = run;
  copied.copy_after = 1;
  for (TinyRun caching : {run, offloaded, copied}) {
    const TinyResult planned = Train(caching);
    using runtime::CachingOptions;
    for (const CachingOptions& options :
         {CachingOptions{}, CachingOptions{.in_place = false},
          CachingOptions{.empty_cache_every = 1}, CachingOptions{.preallocate_bytes = 1 << 20}}) {
      caching.caching = options;
      for (const bool poison : {false, true}) {
        caching.executor.poison = poison;
        const TinyResult result = Train(caching);
        ExpectSameNumbers(result, planned);
        EXPECT_EQ(result.copied, planned.copied);
        EXPECT_EQ(result.caching.peak_reserved, result.replayed_bytes);
        EXPECT_EQ(result.host_caching.peak_reserved > 0, planned.host_arena_bytes > 0);
      }
    }
  }
}

TEST_P(CudaTraining, NoPolicyChangesABit) {
  checkpointing::Options block, selective, offload, mixed;
  block.policy = mixed.policy = Policy::kBlock;
  selective.policy = Policy::kSelective;
  selective.recompute.patterns = {"norms", "activations"};
  offload.offload.patterns = {"*"};
  mixed.offload.patterns = {"block.*.residual_2"};
  for (int64_t accumulate : {1, 3}) {
    TinyRun run = Run();
    run.spec.layers = 4;
    if (run.spec.family == "gpt2") run.spec.dropout = 0.1;
    run.accumulate = accumulate;
    const TinyResult expected = Train(run);
    int number = 0;
    for (const checkpointing::Options& policy : {block, selective, offload, mixed}) {
      SCOPED_TRACE(number++);
      run.checkpointing = policy;
      const TinyResult result = Train(run);
      ExpectSameNumbers(result, expected);
      EXPECT_EQ(result.host_arena_bytes > 0, !policy.offload.patterns.empty());
    }
  }
}

// Each run measures its matrix products anew, and these are large enough to have many candidates.
TEST_P(CudaTraining, ChoicesMadeAnewChangeNoBit) {
  checkpointing::Options none, block, selective, offload;
  block.policy = Policy::kBlock;
  selective.policy = Policy::kSelective;
  selective.recompute.patterns = {"norms", "activations"};
  offload.offload.patterns = {"*"};
  TinyRun run = Run();
  run.spec = std::get<0>(GetParam()) == "Llama"
                 ? models::LlamaSpec({2, 512, 8, 4, 64, 1376, 2048, 512, false})
                 : models::Gpt2Spec(2, 512, 8, 2048, 512);
  run.sequence = 512;
  run.micro_batch = 16;
  run.steps = 3;
  std::optional<TinyResult> expected;
  for (const checkpointing::Options& policy : {none, block, selective, offload}) {
    SCOPED_TRACE(static_cast<int>(policy.policy));
    ops::SetChoices({.measure = true, .folder = "", .warn = {}});
    run.checkpointing = policy;
    const TinyResult result = Train(run);
    if (expected) ExpectSameNumbers(result, *expected);
    expected = result;
  }
  ops::SetChoices({});
}

TEST_P(CudaTraining, StateOnTheHostChangesNoBit) {
  for (optim::StateDType state :
       {optim::StateDType::kFloat32, optim::StateDType::kBFloat16, optim::StateDType::kInt8}) {
    TinyRun run = Run();
    run.update.state_dtype = state;
    const TinyResult device = Train(run);
    run.state_on_host = true;
    const TinyResult host = Train(run);
    ExpectSameNumbers(host, device);
    EXPECT_GT(host.host_arena_bytes, 0);
    run.executor.poison = true;
    ExpectSameNumbers(Train(run), device);
  }
}

// Weights, and carried gradients where there are several micro-steps, with and without the state,
// whose updates stand behind and within the backward pass.
TEST_P(CudaTraining, ParametersOnTheHostChangeNoBit) {
  for (const int64_t accumulate : {1, 3}) {
    for (const runtime::Launch launch : {runtime::Launch::kAwaited, runtime::Launch::kRecorded}) {
      for (const bool in_backward : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << accumulate << " micro-steps, launch " << static_cast<int>(launch)
                     << ", in backward " << in_backward);
        TinyRun run = Run();
        run.spec.layers = 4;
        run.micro_batch = 1;
        run.accumulate = accumulate;
        run.executor.launch = launch;
        run.update.clip_grad_norm = 0;
        run.checkpointing.policy = checkpointing::Options::Policy::kBlock;
        const TinyResult device = Train(run);
        run.update_in_backward = in_backward;
        run.weights_on_host = run.gradients_on_host = true;
        const TinyResult host = Train(run);
        ExpectSameNumbers(host, device);
        EXPECT_GT(host.host_arena_bytes, 0);
        EXPECT_LT(host.arena_bytes, device.arena_bytes);
        run.state_on_host = true;
        ExpectSameNumbers(Train(run), device);
        run.executor.poison = true;
        ExpectSameNumbers(Train(run), device);
      }
    }
  }
}

// Both kinds of copies share the streams.
TEST_P(CudaTraining, ParametersAndActivationsOnTheHostChangeNoBit) {
  TinyRun run = Run();
  const TinyResult device = Train(run);
  run.weights_on_host = run.state_on_host = true;
  run.checkpointing.offload.patterns = {"*"};
  ExpectSameNumbers(Train(run), device);
  run.evaluate = true;
  run.copy_after = 1;
  const TinyResult evaluated = Train(run);
  run.weights_on_host = run.state_on_host = false;
  run.checkpointing.offload.patterns = {};
  const TinyResult resident = Train(run);
  ExpectSameNumbers(evaluated, resident);
  EXPECT_EQ(evaluated.evaluations, resident.evaluations);
  EXPECT_EQ(evaluated.copied, resident.copied);
}

INSTANTIATE_TEST_SUITE_P(Models, CudaTraining,
                         testing::Combine(testing::Values("Gpt2", "Llama"),
                                          testing::Values(DType::kFloat32, DType::kBFloat16,
                                                          DType::kFloat16)),
                         [](const auto& info) {
                           return std::get<0>(info.param) +
                                  std::string(graph::Name(std::get<1>(info.param)));
                         });

// EndStep and TakeMetrics give the results of Metrics one step later.
TEST(CudaSession, MetricsArriveInOrderWhileTheHostIsAhead) {
  PLIMSOLL_NEEDS_CUDA
  TinyRun run = RunOf("Gpt2");
  const TinyResult expected = Train(run);

  const auto model = models::MakeModel(run.spec);
  ThreadPool pool(2);
  const std::unique_ptr<runtime::Device> device = runtime::MakeCudaDevice(pool);
  CompileOptions options;
  options.micro_batch = run.micro_batch;
  options.sequence = run.sequence;
  options.device = device->kind();
  options.capability = runtime::PresentCapability();
  Session session(Compile(*model, options), *device);
  session.Initialize(*model, 1);
  std::vector<double> losses;
  double seconds = 0;
  const auto take = [&] {
    losses.push_back(session.TakeMetrics()[0].loss);
    EXPECT_EQ(session.seconds_of_taken().has_value(), losses.size() > 1);
    seconds += session.seconds_of_taken().value_or(0);
  };
  const auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < run.steps; ++step) {
    std::mt19937 random(step);
    for (size_t i = 0; i < session.batch().tokens.size(); ++i) {
      session.batch().tokens[i] = static_cast<int32_t>(random() % run.spec.vocab);
      random();  // decides what is ignored: nothing here
      session.batch().targets[i] = static_cast<int32_t>(random() % run.spec.vocab);
    }
    session.BeginStep(run.micro_batch * run.sequence, run.lr, 7);
    session.Run(step, 0);
    session.EndStep();
    if (step >= device->steps_ahead()) take();
  }
  while (losses.size() < expected.losses.size()) take();
  EXPECT_EQ(losses, expected.losses);
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - start;
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, all.count()) << "all steps but the first";
}

TEST(CudaSession, WeightsGoInAndComeOutAsTheyAre) {
  PLIMSOLL_NEEDS_CUDA
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    std::vector<std::vector<float>> weights;
    for (bool cuda : {false, true}) {
      TinyRun run = RunOf("Gpt2", dtype);
      run.cuda = cuda;
      run.steps = 0;
      const TinyResult result = Train(run);
      if (cuda) {
        EXPECT_EQ(result.weights, weights);
      }
      weights = result.weights;
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
