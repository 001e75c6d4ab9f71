// Training on all ranks equals training alone: the same losses, gradient norms and weights but for
// the order in which floats are added, and the same bits on every rank. Started under mpirun; every
// rank also trains alone, which is the measure.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/parallel/compare_training.h"
#include "tests/support/mpi_test_main.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kSequences = 8;  // of a step, on all ranks and micro-steps together

struct Combination {
  std::string name;
  TinyRun run;
  std::string invalid;  // why it cannot run on so many ranks
};

std::vector<Combination> Combinations(int64_t ranks) {
  std::vector<Combination> all;
  using Policy = checkpointing::Options::Policy;
  for (const bool llama : {false, true}) {
    for (const int64_t accumulate : {1, 2, 4}) {
      for (const Policy policy : {Policy::kNone, Policy::kBlock}) {
        for (const bool offload : {false, true}) {
          for (const bool state_on_host : {false, true}) {
            Combination c;
            c.name =
                fmt::format("{} × {} micro-steps, {}{}{}", llama ? "llama" : "gpt2", accumulate,
                            policy == Policy::kBlock ? "block" : "none", offload ? ", offload" : "",
                            state_on_host ? ", state on host" : "");
            c.run.spec = llama ? TinyLlama() : TinyGpt2();
            c.run.accumulate = accumulate;
            c.run.micro_batch = kSequences / accumulate / ranks;
            if (c.run.micro_batch == 0) {
              c.invalid = fmt::format("{} sequences do not make {} micro-steps on {} ranks",
                                      kSequences, accumulate, ranks);
            }
            c.run.checkpointing.policy = policy;
            if (offload) c.run.checkpointing.offload.patterns = {"block.*.residual_2"};
            c.run.state_on_host = state_on_host;
            c.run.ignored = 0.3;
            // A key's bias has no gradient but what rounding leaves, of which AdamW, with its own
            // eps, would make steps as large as any.
            c.run.update.eps = 1e-5;
            c.run.evaluate = true;
            c.run.bucket_bytes = 20'000;  // several buckets
            all.push_back(std::move(c));
          }
        }
      }
    }
  }
  return all;
}

TEST(Equivalence, DataParallelRanksTrainAsOne) {
  runtime::World& world = TestWorld();
  if (world.size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  const auto data = world.MakeCpuCommunicator();
  int ran = 0, invalid = 0;
  for (const Combination& c : Combinations(world.size())) {
    if (!c.invalid.empty()) {
      if (world.rank() == 0) fmt::print("invalid: {}: {}\n", c.name, c.invalid);
      ++invalid;
      continue;
    }
    SCOPED_TRACE(c.name);
    TinyRun alone = c.run;
    alone.micro_batch = c.run.micro_batch * world.size();
    const TinyResult want = Train(alone);
    TinyRun shared = c.run;
    shared.executor.communicators.data = data.get();
    shared.executor.check_arena = true;
    const TinyResult got = Train(shared);
    ExpectTrainedAs(got, want);
    ExpectAlikeOnAllRanks(got);
    ++ran;
  }
  if (world.rank() == 0) fmt::print("{} combinations ran, {} are invalid\n", ran, invalid);
  EXPECT_GE(ran, 16);
}

// Weights that are rounded stochastically are rounded alike everywhere, whatever is dropped out.
TEST(Equivalence, RanksRoundStochasticallyAlike) {
  runtime::World& world = TestWorld();
  if (world.size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  const auto data = world.MakeCpuCommunicator();
  TinyRun run;
  run.spec.dropout = 0.2;
  run.micro_batch = 2;
  run.amp.dtype = graph::DType::kBFloat16;
  run.update.master_weights = false;
  run.update.state_dtype = optim::StateDType::kBFloat16;
  run.executor.communicators.data = data.get();
  ExpectAlikeOnAllRanks(Train(run));
}

}  // namespace
}  // namespace plimsoll::trainer
