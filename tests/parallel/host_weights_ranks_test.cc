// Ranks whose weights live on the host get the bits that they get with everything on the device,
// whatever they divide. Started under mpirun.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "parallel/zero_shards.h"
#include "tests/parallel/host_on_ranks.h"

namespace plimsoll::trainer {
namespace {

using Policy = checkpointing::Options::Policy;

class HostWeightsOnRanks : public HostOnRanks {};

TEST_F(HostWeightsOnRanks, WeightsKeepTheBits) {
  for (const bool llama : {false, true}) {
    for (const int64_t zero : {0, 1, 2, 3}) {
      if (!llama && zero % 3 != 0) continue;  // ranks divide both models alike
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

// Gradients are temporaries, on the device. (With tied weights, GPT-2, micro-steps stay one after
// another.)
TEST_F(HostWeightsOnRanks, BlocksFirstKeepsTheBits) {
  for (const bool llama : {false, true}) {
    for (const int64_t zero : {0, 1, 2, 3}) {
      if (!llama && zero % 3 != 0) continue;  // ranks divide both models alike
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

// With any stage of ZeRO a rank has its part of the weights alone, and of the host no more than
// that; on the device the parts and wholes of few blocks.
TEST_F(HostWeightsOnRanks, EachRankHasItsPart) {
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
