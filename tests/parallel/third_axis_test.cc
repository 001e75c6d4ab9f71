// An axis along which no pass splits anything: its ranks all compute the same, and training on data
// × context × tensor equals training on data × tensor. Sessions, state and weights work with any
// number of axes. Started under mpirun.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/axes.h"
#include "runtime/cuda/gpu_memory.h"
#include "runtime/ranks/mesh_ranks.h"
#include "tests/parallel/compare_training.h"
#include "tests/parallel/test_mesh.h"
#include "tests/support/mpi_test_main.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

// With 4 ranks the last axis has one rank; with 8 ranks all axes have two.
Mesh ThreeAxes() {
  return Mesh({DataAxis(2), {.name = "context", .ranks = 2}, TensorAxis(TestWorld().size() / 4)});
}

TinyRun RunOf(int64_t micro_batch) {
  TinyRun run;
  run.micro_batch = micro_batch;
  run.steps = 3;
  run.ignored = 0.3;
  run.update.eps = 1e-5;  // as in equivalence_test.cc
  run.evaluate = true;
  return run;
}

int64_t SavedBytes(const TinyResult& result) {
  int64_t bytes = 0;
  for (const auto& [name, saved] : result.state) bytes += static_cast<int64_t>(saved.size());
  return bytes;
}

TEST(ThirdAxis, ItsRanksTrainAlike) {
  if (TestWorld().size() % 4 != 0) GTEST_SKIP() << "for mpirun: see the test that starts it";
  const TinyResult alone = Train(RunOf(4));
  const TestMesh mesh(ThreeAxes());
  for (const int64_t zero : {0, 1, 3}) {
    SCOPED_TRACE(testing::Message() << "ZeRO " << zero);
    TinyRun run = RunOf(2);
    run.zero = zero;
    mesh.Use(run);
    run.executor.check_arena = true;
    const TinyResult got = ExpectTrainsAs(run, alone);
    // If several ranks have the same element, only one of them saves it.
    int64_t saved = 0;
    for (const std::string& bytes : TestWorld().Gather(std::to_string(SavedBytes(got)))) {
      saved += std::stoll(bytes);
    }
    EXPECT_EQ(saved, SavedBytes(alone));
  }
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The first of all ranks writes, and gets the missing parts from the others.
TEST(ThirdAxis, AllItsRanksServeWeights) {
  if (TestWorld().size() % 4 != 0) GTEST_SKIP() << "for mpirun: see the test that starts it";
  TestMesh mesh(ThreeAxes());
  const runtime::MeshRanks& ranks = mesh.ranks();
  const auto model = models::MakeModel(TinyGpt2());
  ThreadPool pool(1);
  const auto device = MakeTestDevice(pool);
  CompileOptions options;
  options.device = device->kind();
  options.capability = runtime::PresentCapability();
  options.sequence = 16;
  const TempFolder alone, shared;
  Session one(Compile(*model, options), *device);
  one.Initialize(*model, 1);
  one.SaveWeights(*model, alone.path());
  options.mesh = ranks.mesh();
  options.rank = ranks.position().rank;
  options.zero = 3;
  Session several(Compile(*model, options), mesh.device(), {.communicators = ranks.communicators()},
                  {}, ranks.groups());
  several.Initialize(*model, 1);
  several.SaveWeights(*model, shared.path());
  if (options.rank > 0) return;
  const std::string want = Contents(alone.path() + "/model.safetensors");
  EXPECT_FALSE(want.empty());
  EXPECT_TRUE(Contents(shared.path() + "/model.safetensors") == want);
}

}  // namespace
}  // namespace plimsoll::trainer
