// Ranks whose weights, carried gradients and optimizer state live on the host get the bits that
// they get with everything on the device, whatever they divide. Started under mpirun.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/axes.h"
#include "parallel/parts.h"
#include "tests/parallel/compare_training.h"
#include "tests/support/mpi_test_main.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;
using Policy = checkpointing::Options::Policy;

class HostOnRanks : public testing::Test {
 protected:
  void SetUp() override {
    if (TestWorld().size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  }

  // Ranks of a mesh data × tensor.
  const runtime::MeshRanks* Ranks(int64_t tensor = 1) {
    std::unique_ptr<runtime::MeshRanks>& ranks = ranks_[tensor];
    if (!ranks) {
      const int64_t data = TestWorld().size() / tensor;
      ranks = std::make_unique<runtime::MeshRanks>(TestWorld(),
                                                   Mesh({DataAxis(data), TensorAxis(tensor)}));
      ThreadPool pool(1);
      ranks->Connect(*runtime::MakeCpuDevice(pool), 0);
    }
    return ranks.get();
  }

  // Few activations: most of the peak is parameters. Two blocks fit in a bucket.
  TinyRun Run(bool llama, int64_t zero) {
    TinyRun run;
    run.spec = llama ? TinyLlama() : TinyGpt2();
    run.spec.layers = 4;
    run.micro_batch = 1;
    run.sequence = 4;
    run.steps = 2;
    run.zero = zero;
    run.bucket_bytes = 20'000;
    run.update.clip_grad_norm = 0;
    run.executor.check_arena = true;
    run.executor.poison = true;
    run.ranks = Ranks();
    return run;
  }

  std::map<int64_t, std::unique_ptr<runtime::MeshRanks>> ranks_;  // by tensor ranks
};

// Trains with all parameters on the device, and with those on the host that the run says. Returns
// the results.
std::pair<TinyResult, TinyResult> ExpectSameAsOnDevice(const TinyRun& run) {
  TinyRun resident = run;
  resident.weights_on_host = resident.gradients_on_host = resident.state_on_host = false;
  std::pair<TinyResult, TinyResult> results = {Train(resident), Train(run)};
  const auto& [there, here] = results;
  EXPECT_EQ(here.losses, there.losses);
  EXPECT_EQ(here.grad_norms, there.grad_norms);
  EXPECT_EQ(here.evaluations, there.evaluations);
  EXPECT_EQ(here.weights == there.weights, true);
  EXPECT_EQ(here.state == there.state, true);
  EXPECT_EQ(here.copied == there.copied, true);
  EXPECT_EQ(here.used_bytes, here.arena_bytes);
  EXPECT_GT(here.host_arena_bytes, there.host_arena_bytes);
  EXPECT_LT(here.arena_bytes, there.arena_bytes);
  ExpectAlikeOnAllRanks(here);
  return results;
}

TEST_F(HostOnRanks, WeightsKeepTheBits) {
  for (const bool llama : {false, true}) {
    for (const int64_t zero : {0, 1, 2, 3}) {
      for (const bool in_backward : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, ZeRO {}{}", llama ? "Llama" : "GPT-2", zero,
                                 in_backward ? ", state too, in backward, recomputed" : ""));
        TinyRun run = Run(llama, zero);
        run.checkpointing.policy = in_backward ? Policy::kBlock : Policy::kNone;
        run.evaluate = !in_backward;
        run.update_in_backward = run.state_on_host = in_backward;
        run.weights_on_host = true;
        ExpectSameAsOnDevice(run);
      }
    }
  }
}

TEST_F(HostOnRanks, CarriedGradientsKeepTheBits) {
  for (const bool llama : {false, true}) {
    for (const int64_t zero : {0, 1, 2, 3}) {
      for (const bool clip : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, ZeRO {}{}", llama ? "Llama" : "GPT-2", zero,
                                 clip ? ", clipped" : ", weights and state too, in backward"));
        TinyRun run = Run(llama, zero);
        run.accumulate = 3;
        if (clip) run.update.clip_grad_norm = 0.05;
        run.gradients_on_host = true;
        run.weights_on_host = run.state_on_host = run.update_in_backward = !clip;
        ExpectSameAsOnDevice(run);
      }
    }
  }
}

// Gradients are temporaries, on the device. (With tied weights, GPT-2, micro-steps stay one after
// another.)
TEST_F(HostOnRanks, BlocksFirstKeepsTheBits) {
  for (const bool llama : {false, true}) {
    for (const int64_t zero : {0, 1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{}, ZeRO {}", llama ? "Llama" : "GPT-2", zero));
      TinyRun run = Run(llama, zero);
      run.accumulate = run.micro_steps_per_program = 3;
      run.blocks_first = run.update_in_backward = true;
      run.checkpointing.policy = Policy::kBlock;
      run.weights_on_host = run.state_on_host = run.gradients_on_host = true;
      ExpectSameAsOnDevice(run);
    }
  }
}

// What is stored, and how it is updated.
TEST_F(HostOnRanks, AllUpdatesKeepTheBits) {
  std::vector<std::pair<std::string, TinyRun>> runs;
  const auto add = [&](const std::string& name) -> TinyRun& {
    TinyRun& run = runs.emplace_back(name, Run(/*llama=*/true, /*zero=*/3)).second;
    run.weights_on_host = run.state_on_host = true;
    return run;
  };
  add("remainders").amp.dtype = DType::kBFloat16;
  TinyRun& low = add("gradients in bf16");
  low.amp.dtype = DType::kBFloat16;
  low.amp.low_gradients = true;
  low.update.master_weights = false;
  low.accumulate = 2;
  low.gradients_on_host = true;
  TinyRun& scaled = add("fp16");
  scaled.amp.dtype = DType::kFloat16;
  scaled.update.loss_scale = ops::LossScaleOptions{.dynamic = true};
  add("moments in 8 bits").update.state_dtype = optim::StateDType::kInt8;
  TinyRun& averaged = add("averages");
  averaged.update.average = ops::WeightAverageOptions{.decay = 0.75};
  averaged.evaluate = true;
  add("kept whole").checkpointing.reshard = false;
  add("a frozen block").frozen = {"block.1.*"};
  add("adapters").lora = {"*"};
  add("a snapshot beside").copy_after = 0;
  TinyRun& clipped = add("clipped by the last step");
  clipped.update.clip_grad_norm = 0.05;
  clipped.update.clip_by = optim::UpdateOptions::ClipBy::kLastStep;
  for (auto& [name, run] : runs) {
    for (const bool in_backward : {false, true}) {
      SCOPED_TRACE(name + (in_backward ? ", in backward" : ""));
      run.update_in_backward = in_backward;
      ExpectSameAsOnDevice(run);
    }
  }
}

TEST_F(HostOnRanks, KeepsTheBitsBesideTensorRanks) {
  for (const int64_t zero : {0, 1, 2, 3}) {
    for (const int64_t accumulate : {1, 2}) {
      SCOPED_TRACE(fmt::format("ZeRO {}, {} micro-steps", zero, accumulate));
      TinyRun run = Run(/*llama=*/false, zero);
      run.ranks = Ranks(2);
      run.sequence_parallel = accumulate == 2;
      run.accumulate = accumulate;
      run.weights_on_host = run.state_on_host = run.gradients_on_host = true;
      run.update_in_backward = accumulate == 1;
      ExpectSameAsOnDevice(run);
    }
  }
}

// With any stage of ZeRO a rank has its part of the weights alone, and of the host no more than
// that; on the device the parts and wholes of few blocks.
TEST_F(HostOnRanks, EachRankHasItsPart) {
  const int64_t ranks = TestWorld().size();
  const auto model = models::MakeModel(Run(true, 0).spec);
  int64_t whole = 0, part = 0;
  for (const models::ParameterInfo& parameter : model->parameters()) {
    const int64_t bytes = 4 * parameter.shape.elements();
    whole += bytes;
    part += parallel::IsDivided(parameter.shape, ranks) ? bytes / ranks : bytes;
  }
  ASSERT_LT(part, whole);
  for (const int64_t zero : {0, 1, 2, 3}) {
    SCOPED_TRACE(zero);
    TinyRun run = Run(true, zero);
    run.weights_on_host = true;
    const auto [there, here] = ExpectSameAsOnDevice(run);
    const int64_t bytes = zero == 0 ? whole : part;
    EXPECT_GE(here.host_arena_bytes, bytes);
    EXPECT_LE(here.host_arena_bytes, bytes + bytes / 20);  // tensors are aligned
  }
}

}  // namespace
}  // namespace plimsoll::trainer
