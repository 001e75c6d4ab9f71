// Tests on ranks that mpirun has started.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>

#include "tests/parallel/test_mesh.h"
#include "tests/support/mpi_test_main.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {

class OnRanks : public testing::Test {
 protected:
  void SetUp() override {
    if (TestWorld().size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  }

  // The run trains on all ranks as a mesh data × tensor, made once for a test.
  void Use(TinyRun& run, int64_t tensor = 1) {
    meshes_.try_emplace(tensor, tensor).first->second.Use(run);
  }

 private:
  std::map<int64_t, TestMesh> meshes_;  // maps the number of tensor ranks to the mesh
};

}  // namespace plimsoll::trainer
