// Ranks that gather 8-bit codes of weights train with the bits of those that gather 16 bits and
// make codes of these. Started under mpirun.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ops/collectives/collective.h"
#include "tests/parallel/compare_training.h"
#include "tests/parallel/on_ranks.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

using Policy = checkpointing::Options::Policy;

int codes_gathered = 0, maxima = 0;  // nodes of the programs that were compiled last

void CountGathers(CompiledStep& compiled) {
  codes_gathered = maxima = 0;
  for (const auto& program : compiled.programs) {
    for (const graph::Node& node : program->nodes()) {
      const bool codes = !node.inputs.empty() && node.inputs[0] != graph::kNoTensor &&
                         graph::IsFloat8(program->tensor(node.inputs[0]).type.dtype);
      codes_gathered += codes && ops::GathersParameter(*program, node);
      maxima += node.op->name == "all_reduce_start" && node.scope == "fp8_weights";
    }
  }
}

TinyRun RunOf(bool llama, int64_t accumulate) {
  TinyRun run;
  run.spec = llama ? TinyLlama() : TinyGpt2();
  run.accumulate = accumulate;
  run.micro_batch = 2;
  run.steps = 3;
  run.threads = 1;
  run.zero = 3;
  run.amp.dtype = graph::DType::kBFloat16;
  run.amp.fp8.enabled = true;
  run.update.clip_grad_norm = 0;
  run.executor.check_arena = true;
  run.change = &CountGathers;
  return run;
}

class GatherCodesRanks : public OnRanks {
 protected:
  // Trains with gathers of codes, and of 16 bits.
  void ExpectSameBits(TinyRun run, int64_t tensor = 1) {
    Use(run, tensor);
    run.without = {"gather_codes"};
    const TinyResult want = Train(run);
    EXPECT_EQ(codes_gathered, 0);
    EXPECT_EQ(maxima, 0);
    run.without = {};
    const TinyResult got = Train(run);
    EXPECT_GT(codes_gathered, 0);
    EXPECT_EQ(maxima, 1);  // once an update
    EXPECT_EQ(BitsOf(got), BitsOf(want));
    ExpectUsesArena(got);
    EXPECT_LE(got.arena_bytes, want.arena_bytes);
    ExpectAlikeOnAllRanks(got);
  }
};

TEST_F(GatherCodesRanks, ChangeNoBit) {
  for (const bool llama : {false, true}) {
    for (const int64_t accumulate : {1, 3}) {
      for (const bool reshard : {false, true}) {
        SCOPED_TRACE(fmt::format("{} × {} micro-steps{}", llama ? "llama" : "gpt2", accumulate,
                                 reshard ? ", gathered again" : ""));
        TinyRun run = RunOf(llama, accumulate);
        run.checkpointing.policy = reshard ? Policy::kBlock : Policy::kNone;
        run.checkpointing.reshard = reshard;
        ExpectSameBits(run);
      }
    }
  }
}

TEST_F(GatherCodesRanks, ChangeNoBitOfOtherTechniques) {
  std::vector<std::pair<std::string, TinyRun>> runs;
  const auto add = [&](const std::string& name, int64_t accumulate) -> TinyRun& {
    TinyRun& run = runs.emplace_back(name, RunOf(/*llama=*/true, accumulate)).second;
    run.checkpointing.policy = Policy::kBlock;
    return run;
  };
  add("updates in the backward pass", 2).update_in_backward = true;
  add("blocks first", 3).blocks_first = true;
  TinyRun& both = add("blocks first, updates in the backward pass", 3);
  both.blocks_first = both.update_in_backward = true;
  TinyRun& kept = add("blocks first, kept", 3);
  kept.blocks_first = true;
  kept.checkpointing.reshard = false;
  add("frozen", 2).frozen = {"block.0.*", "embed.*"};
  add("adapters", 2).lora = {"all-linear"};
  add("scales of earlier steps", 2).amp.fp8.window = 3;
  add("state on the host", 2).state_on_host = true;
  add("counts", 2).amp.fp8.counts = true;
  for (auto& [name, run] : runs) {
    SCOPED_TRACE(name);
    if (run.blocks_first) run.micro_steps_per_program = run.accumulate;
    ExpectSameBits(run);
  }
}

// Each of two tensor ranks multiplies by multiples of 16; scales are those of its own part.
TEST_F(GatherCodesRanks, ChangeNoBitWithTensorParallelism) {
  if (TestWorld().size() < 4) GTEST_SKIP() << "for four ranks";
  for (const bool sequence : {false, true}) {
    SCOPED_TRACE(sequence ? "sequence parallel" : "tensor parallel");
    TinyRun run = RunOf(/*llama=*/true, /*accumulate=*/2);
    run.spec = models::LlamaSpec({2, 32, 2, 2, 16, 64, 96, 16, false});
    run.checkpointing.policy = Policy::kBlock;
    run.sequence_parallel = sequence;
    ExpectSameBits(run, /*tensor=*/2);
  }
}

// Weights on the host are gathered in 16 bits: their magnitudes would need them once more.
TEST_F(GatherCodesRanks, LeaveWeightsOnTheHostIn16Bits) {
  TinyRun run = RunOf(/*llama=*/true, /*accumulate=*/1);
  Use(run);
  const TinyResult want = Train(run);
  run.weights_on_host = true;
  EXPECT_EQ(BitsOf(Train(run)), BitsOf(want));
  EXPECT_EQ(codes_gathered, 0);
}

}  // namespace
}  // namespace plimsoll::trainer
