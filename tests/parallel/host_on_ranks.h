// Training on ranks with parameters on the host, compared with the same on the device.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "tests/parallel/compare_training.h"
#include "tests/parallel/on_ranks.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {

class HostOnRanks : public OnRanks {
 protected:
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
    Use(run);
    return run;
  }
};

// Trains with all parameters on the device, and with those on the host that the run says, which has
// to give the same bits in less of the device. Returns both results.
inline std::pair<TinyResult, TinyResult> ExpectSameAsOnDevice(const TinyRun& run) {
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
  ExpectUsesArena(here);
  EXPECT_GT(here.host_arena_bytes, there.host_arena_bytes);
  EXPECT_LT(here.arena_bytes, there.arena_bytes);
  ExpectAlikeOnAllRanks(here);
  return results;
}

}  // namespace plimsoll::trainer
