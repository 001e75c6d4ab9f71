// Weights, carried gradients and optimizer state on the host: the same bits as on the device, in
// less of its memory, and the planned memory is the used one.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;
using Policy = checkpointing::Options::Policy;

// Trains with all parameters on the device, and with those on the host that the run says. Returns
// how many bytes fewer the second one takes of the device.
int64_t Saved(const TinyRun& run) {
  TinyRun resident = run;
  resident.weights_on_host = resident.gradients_on_host = resident.state_on_host = false;
  const TinyResult there = Train(resident), here = Train(run);
  ExpectSame(here, there);
  EXPECT_EQ(here.used_bytes, here.arena_bytes);
  EXPECT_GT(here.host_arena_bytes, there.host_arena_bytes);
  return there.arena_bytes - here.arena_bytes;
}

// Llama or GPT-2, whose head is the embedding; the type.
class OnHost : public testing::TestWithParam<std::tuple<bool, DType>> {
 protected:
  static TinyRun Run() {
    TinyRun run;
    run.spec = std::get<0>(GetParam()) ? TinyLlama() : TinyGpt2();
    run.spec.layers = 4;
    run.steps = 4;
    run.amp.dtype = std::get<1>(GetParam());
    run.update.clip_grad_norm = 0;
    run.executor.poison = true;
    run.executor.check_arena = true;
    run.weights_on_host = true;
    return run;
  }
};

// Few activations: most of the peak is parameters.
TinyRun Small(TinyRun run) {
  run.micro_batch = 1;
  run.sequence = 4;
  return run;
}

TEST_P(OnHost, KeepsTheBitsUnderEveryPolicy) {
  for (const Policy policy : {Policy::kNone, Policy::kBlock, Policy::kEvery}) {
    for (const bool in_backward : {false, true}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(policy) << " " << in_backward);
      TinyRun run = Run();
      run.checkpointing.policy = policy;
      run.checkpointing.every = 2;
      run.update_in_backward = in_backward;
      run.state_on_host = in_backward;
      run.evaluate = true;
      EXPECT_GT(Saved(run), 0);
    }
  }
}

TEST_P(OnHost, KeepsTheBitsBesideOffloadedActivations) {
  for (const bool in_backward : {false, true}) {
    TinyRun run = Run();
    run.checkpointing.offload.patterns = {"*"};
    run.update_in_backward = in_backward;
    Saved(run);
  }
}

TEST_P(OnHost, KeepsTheBitsOfSeveralMicroSteps) {
  for (const int64_t together : {1, 3}) {
    for (const bool weights : {false, true}) {
      for (const double clip : {0.0, 0.05}) {
        for (const bool in_backward : {false, true}) {
          SCOPED_TRACE(testing::Message()
                       << together << " " << weights << " " << clip << " " << in_backward);
          TinyRun run = Small(Run());
          run.accumulate = 3;
          run.micro_steps_per_program = together;
          run.weights_on_host = weights;
          run.gradients_on_host = true;
          run.state_on_host = weights;
          run.update.clip_grad_norm = clip;
          run.update_in_backward = in_backward;
          if (together == 3 && in_backward && clip == 0) {
            // One program of all micro-steps, whose updates take gradients at once.
            TinyRun same = run;
            same.gradients_on_host = false;
            const TinyResult with = Train(run), without = Train(same);
            EXPECT_EQ(with.arena_bytes, without.arena_bytes);
            EXPECT_EQ(with.host_arena_bytes, without.host_arena_bytes);
            if (!weights) continue;
          }
          EXPECT_GT(Saved(run), 0);
        }
      }
    }
  }
}

// Fewer blocks on the host take more of the device.
TEST_P(OnHost, KeepsTheBitsWithSomeBlocksThere) {
  using Blocks = std::vector<std::string>;
  for (const bool carried : {false, true}) {
    for (const bool in_backward : {false, true}) {
      SCOPED_TRACE(testing::Message() << carried << " " << in_backward);
      TinyRun run = Small(Run());
      run.accumulate = 3;
      run.gradients_on_host = run.state_on_host = true;
      run.update_in_backward = in_backward;
      if (!carried) run.micro_steps_per_program = 3;
      run.blocks_first = !carried;
      run.update.clip_grad_norm = in_backward ? 0 : 0.05;
      TinyRun resident = run;
      resident.weights_on_host = resident.gradients_on_host = resident.state_on_host = false;
      const TinyResult there = Train(resident);
      int64_t device = there.arena_bytes, host = there.host_arena_bytes;
      for (const Blocks& blocks : {Blocks{"block.2"}, Blocks{"block.0", "block.2", "block.3"}}) {
        run.host_blocks = blocks;
        const TinyResult here = Train(run);
        ExpectSame(here, there);
        EXPECT_EQ(here.used_bytes, here.arena_bytes);
        EXPECT_LT(here.arena_bytes, device);
        EXPECT_GT(here.host_arena_bytes, host);
        device = here.arena_bytes;
        host = here.host_arena_bytes;
      }
      run.host_blocks.clear();
      const TinyResult all = Train(run);
      ExpectSame(all, there);
      EXPECT_GT(all.host_arena_bytes, host);
    }
  }
}

// All micro-steps go through a block while its weights are there. Its gradients are temporaries
// where updates take them, and leave once where the norm of all is needed first. (With tied
// weights, GPT-2, micro-steps stay one after another.)
TEST_P(OnHost, KeepsTheBitsBlocksFirst) {
  for (const bool low : {false, true}) {
    for (const bool offload : {false, true}) {
      SCOPED_TRACE(testing::Message() << low << " " << offload);
      TinyRun run = Small(Run());
      run.accumulate = run.micro_steps_per_program = 3;
      run.blocks_first = run.update_in_backward = run.state_on_host = true;
      run.amp.low_gradients = low;
      run.checkpointing.policy = Policy::kBlock;
      if (offload) run.checkpointing.offload.patterns = {"block.*.residual_2"};
      EXPECT_GT(Saved(run), 0);
      run.update.clip_grad_norm = 0.05;
      const int64_t waiting_here = Saved(run);
      run.gradients_on_host = true;
      EXPECT_GT(Saved(run), waiting_here);
    }
  }
}

TEST_P(OnHost, KeepsTheBitsOfAllUpdates) {
  using ClipBy = optim::UpdateOptions::ClipBy;
  TinyRun sgd = Run();
  sgd.update.algorithm = optim::UpdateOptions::Algorithm::kSgd;
  TinyRun small = Run();
  small.update.state_dtype = optim::StateDType::kInt8;
  small.update.master_weights = false;
  TinyRun averaged = Run();
  averaged.update.average = ops::WeightAverageOptions{.decay = 0.75};
  averaged.evaluate = true;
  TinyRun frozen = Run();
  frozen.frozen = {"block.1.*"};
  TinyRun adapted = Run();
  adapted.lora = {"*"};
  TinyRun ahead = Run();
  ahead.copy_after = 1;
  TinyRun skips = Run();
  skips.update.skips = true;
  skips.loss_limits = {{2, 0.1f}};
  TinyRun clipped = Run();
  clipped.update.clip_grad_norm = 0.05;
  TinyRun each = clipped, last = clipped;
  each.update.clip_by = ClipBy::kParameter;
  last.update.clip_by = ClipBy::kLastStep;
  TinyRun muon = each, small_muon = small, skipping_muon = skips;
  for (TinyRun* run : {&muon, &small_muon, &skipping_muon}) UseMuon(*run);
  int number = 0;
  for (TinyRun run : {sgd, small, averaged, frozen, adapted, ahead, skips, clipped, each, last,
                      muon, small_muon, skipping_muon}) {
    SCOPED_TRACE(number++);
    for (const bool in_backward : {false, true}) {
      run.state_on_host = run.update_in_backward = in_backward;
      Saved(run);
    }
  }
}

// The update of a head that is larger than a block goes in slices.
TEST_P(OnHost, KeepsTheBitsOfUpdatesInSlices) {
  TinyRun whole = Small(Run());
  whole.spec.vocab = 1501;
  whole.state_on_host = true;
  TinyRun rounded = whole, small = whole, sgd = whole, gradients = whole, first = whole;
  rounded.update.state_dtype = optim::StateDType::kBFloat16;
  rounded.update.master_weights = false;
  small.update.state_dtype = optim::StateDType::kInt8;
  small.weights_on_host = false;
  sgd.update.algorithm = optim::UpdateOptions::Algorithm::kSgd;
  TinyRun muon = whole;
  UseMuon(muon);
  gradients.accumulate = 2;
  gradients.gradients_on_host = true;
  first = gradients;
  first.micro_steps_per_program = 2;
  first.blocks_first = true;
  for (TinyRun run : {whole, rounded, small, sgd, muon, gradients, first}) {
    for (const bool clip : {false, true}) {
      run.update_in_backward = !clip;
      run.update.clip_grad_norm = clip ? 0.05 : 0;
      const auto model = models::MakeModel(run.spec);
      const CompiledStep compiled =
          Compile(*model, OptionsOf(run, *model, runtime::DeviceKind::kCpu));
      const bool sliced = std::ranges::any_of(compiled.passes, [](const graph::PassReport& report) {
        return report.pass == "slice_updates" && report.result.changed;
      });
      EXPECT_TRUE(sliced);
      EXPECT_GT(Saved(run), 0);
    }
  }
}

TEST_P(OnHost, TakesLittleOfTheDevice) {
  TinyRun run = Small(Run());
  const auto model = models::MakeModel(run.spec);
  int64_t elements = 0;
  for (const models::ParameterInfo& parameter : model->parameters()) {
    elements += parameter.shape.elements();
  }
  const int64_t weights = elements * (std::get<1>(GetParam()) == DType::kFloat32 ? 4 : 2);
  EXPECT_GT(Saved(run), weights / 2);
  run.state_on_host = run.update_in_backward = true;
  EXPECT_GT(Saved(run), weights + elements * 3);
}

INSTANTIATE_TEST_SUITE_P(Models, OnHost,
                         testing::Combine(testing::Bool(),
                                          testing::Values(DType::kFloat32, DType::kBFloat16)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "Llama" : "Gpt2") +
                                  std::string(graph::Name(std::get<1>(info.param)));
                         });

// Loss scaling: masters are float32, and a gate may hold an update back.
TEST(OnHostInFloat16, KeepsTheBits) {
  for (const int64_t accumulate : {1, 2}) {
    TinyRun run;
    run.amp.dtype = DType::kFloat16;
    run.update.loss_scale = ops::LossScaleOptions{};
    run.accumulate = accumulate;
    run.weights_on_host = run.state_on_host = run.gradients_on_host = true;
    run.executor.check_arena = true;
    EXPECT_GT(Saved(run), 0);
  }
}

}  // namespace
}  // namespace plimsoll::trainer
