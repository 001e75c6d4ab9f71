// Dividing state among data ranks does not change training: it equals training alone, and, except
// for the order in which the gradient norm is added, it equals plain data parallelism to the bit.
// Started under mpirun.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/parallel/compare_training.h"
#include "tests/parallel/on_ranks.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

using Policy = checkpointing::Options::Policy;

constexpr int64_t kSequences = 8;  // of a step, on all ranks and micro-steps together

TinyRun RunOf(bool llama, int64_t accumulate) {
  TinyRun run;
  run.spec = llama ? TinyLlama() : TinyGpt2();
  run.accumulate = accumulate;
  run.micro_batch = kSequences / accumulate;
  run.steps = 3;
  run.ignored = 0.3;
  run.update.eps = 1e-5;  // as in equivalence_test.cc
  run.evaluate = true;
  run.bucket_bytes = 20'000;
  return run;
}

class ZeroEquivalence : public OnRanks {
 protected:
  // The same step on all ranks.
  TinyRun Shared(TinyRun run, int64_t zero) {
    run.micro_batch /= TestWorld().size();
    run.zero = zero;
    Use(run);
    run.executor.check_arena = true;
    return run;
  }
};

TEST_F(ZeroEquivalence, TrainsAsOneRank) {
  int ran = 0;
  for (const bool llama : {false, true}) {
    for (const int64_t accumulate : {1, 2, 4}) {
      const TinyRun alone = RunOf(llama, accumulate);
      if (alone.micro_batch < TestWorld().size()) continue;  // too few sequences
      const TinyResult want = Train(alone);
      for (const int64_t zero : {1, 2, 3}) {
        // Recomputing and state on the host are tested together, since they don't interact.
        for (const Policy policy : {Policy::kNone, Policy::kBlock}) {
          SCOPED_TRACE(fmt::format("{} × {} micro-steps, ZeRO {}, {}", llama ? "llama" : "gpt2",
                                   accumulate, zero,
                                   policy == Policy::kBlock ? "block, state on host" : "none"));
          TinyRun shared = Shared(alone, zero);
          shared.checkpointing.policy = policy;
          shared.state_on_host = policy == Policy::kBlock;
          ExpectTrainsAs(shared, want);
          ++ran;
        }
      }
    }
  }
  EXPECT_GE(ran, 24);
}

TEST_F(ZeroEquivalence, AveragesAsOneRank) {
  for (const bool llama : {false, true}) {
    for (const int64_t accumulate : {1, 2}) {
      TinyRun alone = RunOf(llama, accumulate);
      alone.update.average = ops::WeightAverageOptions{.decay = 0.75};
      const TinyResult want = Train(alone);
      EXPECT_EQ(want.evaluations.size(), 2 * want.losses.size());
      for (const int64_t zero : {0, 1, 2, 3}) {
        for (const bool host : {false, true}) {
          SCOPED_TRACE(fmt::format("{} × {} micro-steps, ZeRO {}{}", llama ? "llama" : "gpt2",
                                   accumulate, zero, host ? ", state on host" : ""));
          TinyRun shared = Shared(alone, zero);
          shared.state_on_host = host;
          ExpectTrainsAs(shared, want);
        }
      }
    }
  }
}

// What each rank saves of a snapshot, copied in groups while steps go on that update within the
// backward pass.
TEST_F(ZeroEquivalence, CopiesTheStateBetweenTwoSteps) {
  for (const int64_t zero : {0, 1, 2, 3}) {
    SCOPED_TRACE(fmt::format("ZeRO {}", zero));
    TinyRun shared = Shared(RunOf(/*llama=*/true, /*accumulate=*/1), zero);
    shared.update.clip_grad_norm = 0;
    shared.update_in_backward = true;
    shared.steps = 3;
    const TinyState between = Train(shared).state;
    shared.steps = 5;
    shared.copy_after = 2;
    const TinyResult copied = Train(shared);
    EXPECT_EQ(copied.copied, between);
    EXPECT_NE(copied.copied, copied.state);
  }
}

TEST_F(ZeroEquivalence, ClipsAsOneRank) {
  using ClipBy = optim::UpdateOptions::ClipBy;
  for (const ClipBy by : {ClipBy::kParameter, ClipBy::kLastStep}) {
    TinyRun alone = RunOf(/*llama=*/false, /*accumulate=*/2);
    alone.update.clip_grad_norm = 0.05;
    alone.update.clip_by = by;
    const TinyResult want = Train(alone);
    for (const int64_t zero : {0, 1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{}, ZeRO {}", static_cast<int>(by), zero));
      ExpectTrainsAs(Shared(alone, zero), want);
    }
  }
}

// A weight's codes are gathered, or made of the gathered weight where that lay on the host.
TEST_F(ZeroEquivalence, EightBitLayersHaveTheBitsOfPlainDataParallelism) {
  for (const bool llama : {false, true}) {
    for (const int64_t accumulate : {1, 2}) {
      TinyRun alone = RunOf(llama, accumulate);
      alone.amp.dtype = graph::DType::kBFloat16;
      alone.amp.fp8.enabled = true;
      alone.update.clip_grad_norm = 0;
      const TinyResult whole = Train(Shared(alone, 0));
      // From the second stage on, ranks add up the gradients of each micro-step.
      const TinyResult divided = Train(Shared(alone, 2));
      for (const int64_t zero : {1, 2, 3}) {
        const TinyResult& want = zero < 2 || accumulate == 1 ? whole : divided;
        for (const Policy policy : {Policy::kNone, Policy::kBlock}) {
          SCOPED_TRACE(fmt::format("{} × {} micro-steps, ZeRO {}, {}", llama ? "llama" : "gpt2",
                                   accumulate, zero,
                                   policy == Policy::kBlock ? "block, weights on host" : "none"));
          TinyRun shared = Shared(alone, zero);
          shared.checkpointing.policy = policy;
          shared.weights_on_host = policy == Policy::kBlock;
          const TinyResult got = Train(shared);
          EXPECT_EQ(got.losses, want.losses);
          EXPECT_EQ(got.weights, want.weights);
          ExpectUsesArena(got);
        }
      }
    }
  }
}

// Updates within the backward pass change no bit, on each rank.
TEST_F(ZeroEquivalence, UpdatesInTheBackwardPassWithTheSameBits) {
  for (const bool llama : {false, true}) {
    for (const int64_t accumulate : {1, 2}) {
      for (const int64_t zero : {0, 1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{} × {} micro-steps, ZeRO {}", llama ? "llama" : "gpt2",
                                 accumulate, zero));
        TinyRun shared = Shared(RunOf(llama, accumulate), zero);
        shared.update.clip_grad_norm = 0;
        shared.checkpointing.policy = Policy::kBlock;
        const TinyResult want = Train(shared);
        shared.update_in_backward = true;
        const TinyResult got = Train(shared);
        EXPECT_EQ(BitsOf(got), BitsOf(want));
        ExpectUsesArena(got);
        ExpectAlikeOnAllRanks(got);
        shared.state_on_host = true;
        shared.weights_on_host = true;
        EXPECT_EQ(BitsOf(Train(shared)), BitsOf(want));
      }
    }
  }
}

// Sums in bf16 depend on how many ranks they are over: losses agree, bits don't.
TEST_F(ZeroEquivalence, SumsGradientsInBf16) {
  for (const int64_t accumulate : {1, 2}) {
    TinyRun alone = RunOf(/*llama=*/true, accumulate);
    alone.amp.low_gradients = true;
    const TinyResult want = Train(alone);
    for (const int64_t zero : {0, 1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} micro-steps, ZeRO {}", accumulate, zero));
      const TinyResult got = Train(Shared(alone, zero));
      ASSERT_EQ(got.losses.size(), want.losses.size());
      for (size_t i = 0; i < want.losses.size(); ++i) {
        EXPECT_NEAR(got.losses[i], want.losses[i], 5e-3) << "step " << i;
        EXPECT_NEAR(got.grad_norms[i] / want.grad_norms[i], 1, 1e-2) << "step " << i;
      }
      ExpectUsesArena(got);
      ExpectAlikeOnAllRanks(got);
    }
  }
}

// Frozen parameters are whole, or gathered like the others, and never updated.
TEST_F(ZeroEquivalence, TrainsBesideFrozenParameters) {
  for (const bool llama : {false, true}) {
    for (const int64_t accumulate : {1, 2}) {
      TinyRun alone = RunOf(llama, accumulate);
      alone.frozen = {"block.0.*", "embed.*"};
      const TinyResult want = Train(alone);
      for (const int64_t zero : {0, 1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{} × {} micro-steps, ZeRO {}", llama ? "llama" : "gpt2",
                                 accumulate, zero));
        ExpectTrainsAs(Shared(alone, zero), want);
      }
    }
  }
}

TEST_F(ZeroEquivalence, TrainsAdapters) {
  for (const bool llama : {false, true}) {
    for (const int64_t accumulate : {1, 2}) {
      TinyRun alone = RunOf(llama, accumulate);
      alone.lora = {"all-linear"};
      const TinyResult want = Train(alone);
      for (const int64_t zero : {0, 1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{} × {} micro-steps, ZeRO {}", llama ? "llama" : "gpt2",
                                 accumulate, zero));
        ExpectTrainsAs(Shared(alone, zero), want);
      }
    }
  }
}

// Weights and moments in all types in which they are stored. Without clipping nothing depends on
// the norm; with one micro-step, gradients are added in one order.
TEST_F(ZeroEquivalence, ChangesNoBit) {
  std::vector<std::pair<std::string, TinyRun>> runs;
  const auto add = [&](const std::string& name) -> TinyRun& {
    TinyRun& run = runs.emplace_back(name, RunOf(false, 1)).second;
    run.update.clip_grad_norm = 0;
    return run;
  };
  add("adamw");
  add("remainders").amp.dtype = graph::DType::kBFloat16;
  TinyRun& masters = add("masters");
  masters.amp.dtype = graph::DType::kFloat16;
  masters.update.loss_scale = ops::LossScaleOptions{.dynamic = true};
  add("codes of 8 bits").update.state_dtype = optim::StateDType::kInt8;
  add("sgd").update.algorithm = optim::UpdateOptions::Algorithm::kSgd;
  TinyRun& plain = add("sgd without state");
  plain.update.algorithm = optim::UpdateOptions::Algorithm::kSgd;
  plain.update.momentum = 0;
  UseMuon(add("muon"));
  TinyRun& rounded = add("muon in bf16");
  rounded.amp.dtype = graph::DType::kBFloat16;
  UseMuon(rounded);
  TinyRun& coded = add("muon with codes of 8 bits");
  coded.update.state_dtype = optim::StateDType::kInt8;
  UseMuon(coded);
  for (const auto& [name, run] : runs) {
    TinyResult want = Train(Shared(run, 0));
    for (const int64_t zero : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{}, ZeRO {}", name, zero));
      TinyResult got = Train(Shared(run, zero));
      ExpectNear(got.grad_norms, want.grad_norms, "gradient norm");
      got.grad_norms = want.grad_norms;
      EXPECT_EQ(BitsOf(got) == BitsOf(want), true);
    }
  }
}

TEST_F(ZeroEquivalence, MicroStepsInOneProgramChangeNoBit) {
  for (const bool llama : {false, true}) {
    for (const int64_t zero : {0, 1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{}, ZeRO {}", llama ? "Llama" : "GPT-2", zero));
      TinyRun run = Shared(RunOf(llama, 2), zero);
      const TinyResult want = Train(run);
      run.micro_steps_per_program = 2;
      const TinyResult got = Train(run);
      EXPECT_EQ(BitsOf(got) == BitsOf(want), true);
      ExpectUsesArena(got);
    }
  }
}

// Weights that are gathered again equal those that were kept, whatever else is recomputed.
TEST_F(ZeroEquivalence, GathersTheSameWeightsAgain) {
  for (const int64_t accumulate : {1, 2}) {
    TinyRun run = Shared(RunOf(true, accumulate), 3);
    run.checkpointing.reshard = false;
    const TinyResult want = Train(run);
    for (const Policy policy :
         {Policy::kNone, Policy::kSelective, Policy::kBlock, Policy::kEvery}) {
      for (const bool reshard : {true, false}) {
        SCOPED_TRACE(fmt::format("policy {}, reshard {}", static_cast<int>(policy), reshard));
        run.checkpointing.policy = policy;
        run.checkpointing.every = 2;
        run.checkpointing.recompute.patterns = {"norms", "activations"};
        run.checkpointing.reshard = reshard;
        EXPECT_EQ(BitsOf(Train(run)) == BitsOf(want), true);
      }
    }
  }
}

// Each rank rounds its own parts with its own random numbers, and whole tensors like the other
// ranks.
TEST_F(ZeroEquivalence, RoundsStochastically) {
  for (const int64_t zero : {1, 2, 3}) {
    TinyRun run = Shared(RunOf(false, 1), zero);
    run.amp.dtype = graph::DType::kBFloat16;
    run.update.master_weights = false;
    run.update.state_dtype = optim::StateDType::kBFloat16;
    const TinyResult got = Train(run);
    ExpectAlikeOnAllRanks(got);
    TinyRun plain = Shared(RunOf(false, 1), 0);
    plain.amp.dtype = graph::DType::kBFloat16;
    const TinyResult want = Train(plain);
    for (size_t i = 0; i < got.losses.size(); ++i) {
      EXPECT_NEAR(got.losses[i], want.losses[i], 2e-3 * want.losses[i]);
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
