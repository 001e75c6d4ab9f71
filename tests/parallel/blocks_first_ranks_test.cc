// Ranks whose micro-steps go block by block get the bits that they get with one micro-step after
// another, whatever they divide. Started under mpirun.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/axes.h"
#include "tests/parallel/compare_training.h"
#include "tests/parallel/test_mesh.h"
#include "tests/support/mpi_test_main.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

TinyRun RunOf(bool llama, int64_t zero) {
  TinyRun run;
  run.spec = llama ? TinyLlama() : TinyGpt2();
  run.accumulate = 3;
  run.micro_batch = 1;
  run.steps = 3;
  run.ignored = 0.3;
  run.evaluate = true;
  run.zero = zero;
  run.bucket_bytes = 20'000;
  run.update.clip_grad_norm = 0;
  run.checkpointing.policy = checkpointing::Options::Policy::kBlock;
  run.executor.check_arena = true;
  return run;
}

TEST(BlocksFirstOnRanks, ChangeNoBit) {
  if (TestWorld().size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  const TestMesh mesh;
  for (const bool llama : {false, true}) {
    for (const int64_t zero : {0, 1, 2, 3}) {
      TinyRun run = RunOf(llama, zero);
      mesh.Use(run);
      const TinyResult want = Train(run);
      run.micro_steps_per_program = run.accumulate;
      run.blocks_first = true;
      for (const bool in_backward : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, ZeRO {}{}", llama ? "Llama" : "GPT-2", zero,
                                 in_backward ? ", updates in the backward pass" : ""));
        run.update_in_backward = in_backward;
        const TinyResult got = Train(run);
        EXPECT_EQ(BitsOf(got), BitsOf(want));
        ExpectUsesArena(got);
        ExpectAlikeOnAllRanks(got);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
