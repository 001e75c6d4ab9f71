// What belongs to a parameter is found by what it is to it, whatever its name: in training, in
// snapshots, on other ranks, and when weights are exported. Started under mpirun and alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/axes.h"
#include "snapshots/snapshot.h"
#include "tests/parallel/mesh_session.h"
#include "tests/parallel/test_mesh.h"
#include "tests/support/mpi_test_main.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/owned_names.h"
#include "tests/trainer/tiny_session.h"
#include "trainer/resolve/ranks.h"
#include "trainer/save_and_resume/read_snapshot.h"
#include "trainer/save_and_resume/save_snapshot.h"
#include "trainer/step/compile.h"
#include "trainer/step/saved_tensors.h"

namespace plimsoll::trainer {
namespace {

struct Way {
  const char* name;
  graph::DType dtype;
  optim::StateDType state;
};
constexpr Way kWays[] = {
    {"remainders and codes", graph::DType::kBFloat16, optim::StateDType::kInt8},
    {"masters", graph::DType::kFloat16, optim::StateDType::kFloat32},
    {"float32", graph::DType::kFloat32, optim::StateDType::kInt8}};

TinyRun RunOf(const Way& way) {
  TinyRun run;
  run.spec = models::Gpt2Spec(2, 64, 4, 512, 16);
  run.steps = 3;
  run.amp.dtype = way.dtype;
  run.update.state_dtype = way.state;
  run.update.average = ops::WeightAverageOptions{0.5, false};
  return run;
}

// Numbers that tell where they belong; the state has the same order under all names.
void Fill(const models::Model& model, Session& session) {
  session.Initialize(model, 1);
  const std::vector<StateTensor> state = session.State();
  for (size_t s = 0; s < state.size(); ++s) {
    const StateTensor& tensor = state[s];
    if (!tensor.owner) continue;
    std::vector<std::byte> bytes(
        static_cast<size_t>(tensor.elements * graph::ByteSize(tensor.dtype)));
    for (size_t i = 0; i < bytes.size(); ++i) {
      const size_t at = static_cast<size_t>(tensor.begin * graph::ByteSize(tensor.dtype)) + i;
      bytes[i] = static_cast<std::byte>(((at * 2654435761u + s * 40503u) >> 11) & 0x3f);
    }
    session.WriteState(tensor, 0, bytes);
  }
}

std::vector<std::vector<std::byte>> BytesOf(Session& session) {
  std::vector<std::vector<std::byte>> all;
  for (const StateTensor& tensor : session.State()) {
    std::vector<std::byte>& bytes =
        all.emplace_back(static_cast<size_t>(tensor.elements * graph::ByteSize(tensor.dtype)));
    session.ReadState(tensor, 0, bytes);
  }
  return all;
}

struct Layout {
  int64_t tensor, zero;
};

struct Moved {
  std::vector<std::vector<std::byte>> state;          // of this rank, on the mesh it was moved to
  std::vector<std::vector<float>> weights, averages;  // as they are exported
};

// Saved by one mesh, read by another and exported.
Moved Move(const Way& way, Layout from, Layout to, bool renamed) {
  runtime::World& world = TestWorld();
  TinyRun run = RunOf(way);
  if (renamed) run.change = RenameOwned;
  const auto model = models::MakeModel(run.spec);
  const TempFolder own;
  const snapshots::Folder folder(world.Broadcast(own.path()));
  {
    MeshSession before(run, *model, from.tensor, from.zero);
    Fill(*model, before.session());
    const int32_t updates = 1;
    before.session().Write<int32_t>("ema_count", {&updates, 1});
    Save(before, folder, 1);
  }
  const snapshots::Snapshot snapshot(folder.PathOf(1));
  const auto named = [&](const std::string& name) {
    return snapshot.manifest().Find(name, 0) != nullptr;
  };
  const std::string average = "embed.token.weight.ema";
  EXPECT_EQ(named(average), !renamed);
  EXPECT_EQ(named(RenamedAs(average)), renamed);
  MeshSession after(run, *model, to.tensor, to.zero);
  ReadSnapshot(snapshot, *model, after.ranks(), after.session());
  Moved moved = {.state = BytesOf(after.session()), .weights = {}, .averages = {}};
  for (const bool averages : {false, true}) {
    const SavedTensors saved(snapshot, *model, {}, averages);
    for (const models::ParameterInfo& parameter : model->parameters()) {
      (averages ? moved.averages : moved.weights).push_back(saved.ReadParameter(parameter));
    }
  }
  world.Barrier();
  return moved;
}

TEST(OwnedNames, MeanNothingInSnapshots) {
  const bool alone = TestWorld().size() == 1;
  const std::vector<std::pair<Layout, Layout>> moves =
      alone ? std::vector<std::pair<Layout, Layout>>{{{1, 0}, {1, 0}}}
            : std::vector<std::pair<Layout, Layout>>{
                  {{1, 1}, {2, 0}}, {{2, 0}, {1, 3}}, {{1, 3}, {1, 2}}, {{2, 0}, {2, 0}}};
  for (const Way& way : kWays) {
    for (const auto& [from, to] : moves) {
      SCOPED_TRACE(fmt::format("{}: {} tensor ranks with ZeRO {} to {} with ZeRO {}", way.name,
                               from.tensor, from.zero, to.tensor, to.zero));
      const Moved usual = Move(way, from, to, false), renamed = Move(way, from, to, true);
      EXPECT_EQ(renamed.state, usual.state);
      EXPECT_EQ(renamed.weights, usual.weights);
      EXPECT_EQ(renamed.averages, usual.averages);
      EXPECT_NE(usual.averages, usual.weights);
    }
  }
}

TEST(OwnedNames, MeanNothingInTraining) {
  for (const Way& way : kWays) {
    for (const int64_t zero : {0, 1, 2, 3}) {
      if (TestWorld().size() == 1 && zero > 0) continue;
      SCOPED_TRACE(fmt::format("{}, ZeRO {}", way.name, zero));
      const TestMesh mesh;
      TinyRun run = RunOf(way);
      mesh.Use(run);
      run.zero = zero;
      run.evaluate = true;
      const TinyResult usual = Train(run);
      run.change = RenameOwned;
      const TinyResult renamed = Train(run);
      ExpectSameNumbers(renamed, usual);
      EXPECT_FALSE(renamed.state.contains("embed.token.weight.ema"));
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
