// A mesh of all ranks that mpirun has started.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/axes.h"
#include "base/thread_pool.h"
#include "runtime/device.h"
#include "runtime/ranks/mesh_ranks.h"
#include "tests/support/mpi_test_main.h"
#include "tests/support/test_device.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {

// The ranks, connected on devices of the tests' kind. All ranks construct it.
class TestMesh {
 public:
  explicit TestMesh(Mesh mesh)
      : device_(MakeTestDevice(pool_)), ranks_(TestWorld(), std::move(mesh)) {
    ranks_.Connect(*device_, 0);
  }
  // A mesh data × tensor.
  explicit TestMesh(int64_t tensor = 1)
      : TestMesh(Mesh({DataAxis(TestWorld().size() / tensor), TensorAxis(tensor)})) {}

  // The run trains on these ranks. On GPUs it needs the device that connected them, which registers
  // the arena with their communicators.
  void Use(TinyRun& run) const {
    run.ranks = &ranks_;
    run.device = TestsOnGpus() ? device_.get() : nullptr;
  }

  runtime::MeshRanks& ranks() { return ranks_; }
  const runtime::MeshRanks& ranks() const { return ranks_; }
  runtime::Device& device() { return *device_; }

 private:
  ThreadPool pool_{1};
  std::unique_ptr<runtime::Device> device_;
  runtime::MeshRanks ranks_;
};

}  // namespace plimsoll::trainer
