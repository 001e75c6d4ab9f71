// The ranks of a mesh data × tensor, with a session that holds zeros, its steps and snapshots.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/axes.h"
#include "base/thread_pool.h"
#include "snapshots/folder.h"
#include "tests/support/mpi_test_main.h"
#include "tests/support/test_device.h"
#include "tests/trainer/tiny_session.h"
#include "trainer/resolve/ranks.h"
#include "trainer/save_and_resume/save_snapshot.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

class MeshSession {
 public:
  MeshSession(TinyRun run, const models::Model& model, int64_t tensor, int64_t zero)
      : pool_(2),
        device_(MakeTestDevice(pool_)),
        ranks_(TestWorld(), Mesh({DataAxis(TestWorld().size() / tensor), TensorAxis(tensor)})) {
    ranks_.Connect(*device_, 0);
    run.zero = zero;
    CompileOptions options = OptionsOf(run, model, device_->kind());
    options.mesh = ranks_.mesh();
    options.rank = ranks_.rank();
    CompiledStep compiled = Compile(model, options);
    if (run.change != nullptr) run.change(compiled);
    session_ =
        std::make_unique<Session>(std::move(compiled), *device_,
                                  runtime::ExecutorOptions{.communicators = ranks_.communicators()},
                                  memory::Allocation(), ranks_.groups());
  }

  Ranks& ranks() { return ranks_; }
  Session& session() { return *session_; }

 private:
  ThreadPool pool_;
  std::unique_ptr<runtime::Device> device_;
  Ranks ranks_;
  std::unique_ptr<Session> session_;
};

// Tokens of a step, on all data ranks.
inline std::vector<int32_t> TokensOf(const TinyRun& run, int64_t data_ranks, int step) {
  std::mt19937 random(static_cast<unsigned>(step));
  std::vector<int32_t> tokens(
      static_cast<size_t>(run.micro_batch * run.sequence * run.accumulate * data_ranks));
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % run.spec.vocab);
  return tokens;
}

// Trains on these. `skip`: the loss is beyond its limit, and run.update skips the update.
inline void RunStep(MeshSession& mesh, const TinyRun& run, int step, bool skip = false) {
  const MeshPosition& position = mesh.ranks().position();
  const int64_t data_ranks = position.ranks(kDataAxis);
  const std::vector<int32_t> tokens = TokensOf(run, data_ranks, step);
  const int64_t size = run.micro_batch * run.sequence;
  Session& session = mesh.session();
  session.BeginStep(static_cast<int64_t>(tokens.size()), run.lr, 7,
                    skip ? 0.5f : std::numeric_limits<float>::infinity());
  for (int64_t micro = 0; micro < run.accumulate; ++micro) {
    const int64_t at = size * (micro * data_ranks + position.at(kDataAxis));
    const int64_t in_program = micro % run.micro_steps_per_program;
    const BatchSlots& batch = session.batch(in_program);
    std::copy_n(tokens.begin() + at, size, batch.tokens.begin());
    std::copy_n(tokens.begin() + at, size, batch.targets.begin());
    if (in_program + 1 < run.micro_steps_per_program) continue;
    session.Run(step, micro / run.micro_steps_per_program);
  }
  EXPECT_GT(session.Metrics().loss, 0.5);
}

// The snapshot of a step, by all ranks.
inline void Save(MeshSession& mesh, const snapshots::Folder& folder, int64_t step) {
  runtime::World& world = TestWorld();
  if (world.rank() == 0) folder.Begin(step);
  world.Barrier();
  const std::string shard = WriteShard(folder.PartialOf(step), mesh.session(), mesh.ranks(), [] {});
  const snapshots::Manifest manifest = ManifestOf(world.Gather(shard), step, "{}", mesh.ranks());
  if (world.rank() == 0) {
    folder.Finish(manifest);
    folder.Publish(step);
  }
  world.Barrier();
}

}  // namespace plimsoll::trainer
