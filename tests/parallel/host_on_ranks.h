// Training on ranks with parameters on the host, compared with the same on the device.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>

#include "base/axes.h"
#include "tests/parallel/compare_training.h"
#include "tests/support/mpi_test_main.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {

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
  EXPECT_EQ(here.used_bytes, here.arena_bytes);
  EXPECT_GT(here.host_arena_bytes, there.host_arena_bytes);
  EXPECT_LT(here.arena_bytes, there.arena_bytes);
  ExpectAlikeOnAllRanks(here);
  return results;
}

}  // namespace plimsoll::trainer
