// Tests on ranks that mpirun has started.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "base/axes.h"
#include "base/thread_pool.h"
#include "runtime/device.h"
#include "runtime/ranks/mesh_ranks.h"
#include "tests/support/mpi_test_main.h"

namespace plimsoll::trainer {

class OnRanks : public testing::Test {
 protected:
  void SetUp() override {
    if (TestWorld().size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  }

  // All ranks as a mesh data × tensor on CPUs, made once for a test.
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

 private:
  std::map<int64_t, std::unique_ptr<runtime::MeshRanks>> ranks_;  // by tensor ranks
};

}  // namespace plimsoll::trainer
