// Scales of earlier steps (amp.fp8.recipe: delayed): all ranks have those of all ranks' numbers,
// and they are saved and resumed in the middle of a history, by another mesh, too. Started under
// mpirun and alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "snapshots/snapshot.h"
#include "tests/parallel/mesh_session.h"
#include "tests/support/mpi_test_main.h"
#include "tests/support/temp_folder.h"
#include "trainer/save_and_resume/read_snapshot.h"

namespace plimsoll::trainer {
namespace {

constexpr char kLargest[] = "fp8_largest", kHistory[] = "fp8_largest.history";
constexpr int64_t kWindow = 3;

TinyRun DelayedRun() {
  TinyRun run;
  // Each of two tensor ranks multiplies by multiples of 16.
  run.spec = models::LlamaSpec({2, 32, 2, 2, 16, 64, 96, 16, false});
  run.micro_batch = 2;
  run.accumulate = 2;
  run.amp.dtype = graph::DType::kBFloat16;
  run.amp.fp8.enabled = true;
  run.amp.fp8.window = kWindow;
  run.update.skips = true;
  return run;
}

struct Found {
  std::vector<float> largest, history;
  bool operator==(const Found&) const = default;
};

Found FoundBy(MeshSession& mesh) {
  return {mesh.session().Read<float>(kLargest), mesh.session().Read<float>(kHistory)};
}

void ExpectOnAllRanks(const Found& found) {
  for (const std::vector<float>* values : {&found.largest, &found.history}) {
    const std::string own(reinterpret_cast<const char*>(values->data()),
                          values->size() * sizeof(float));
    EXPECT_EQ(TestWorld().Broadcast(own), own);
  }
}

// Of the last `rows` rows, which steps have filled; the others are zeros.
void ExpectLargestOf(const Found& found, int64_t rows) {
  const size_t count = found.largest.size();
  for (size_t i = 0; i < count; ++i) {
    float largest = 0;
    int64_t filled = 0;
    for (size_t row = 0; row < kWindow; ++row) {
      const float value = found.history[row * count + i];
      largest = std::max(largest, value);
      filled += value > 0;
    }
    EXPECT_EQ(found.largest[i], largest) << i;
    EXPECT_EQ(filled, rows) << i;
  }
}

struct Layout {
  int64_t tensor, zero;
};

TEST(Fp8DelayedRanks, HistoriesMoveToOtherMeshes) {
  const bool alone = TestWorld().size() == 1;
  const std::vector<std::pair<Layout, Layout>> moves =
      alone ? std::vector<std::pair<Layout, Layout>>{{{1, 0}, {1, 0}}}
            : std::vector<std::pair<Layout, Layout>>{
                  {{1, 3}, {2, 0}}, {{2, 0}, {1, 3}}, {{1, 0}, {1, 1}}};
  const TinyRun run = DelayedRun();
  const auto model = models::MakeModel(run.spec);
  for (const auto& [from, to] : moves) {
    SCOPED_TRACE(fmt::format("{} tensor ranks with ZeRO {} to {} with ZeRO {}", from.tensor,
                             from.zero, to.tensor, to.zero));
    const TempFolder own;
    const snapshots::Folder folder(TestWorld().Broadcast(own.path()));
    Found saved;
    {
      MeshSession before(run, *model, from.tensor, from.zero);
      before.session().Initialize(*model, 1);
      for (const int step : {0, 1}) RunStep(before, run, step);
      saved = FoundBy(before);
      // Each layer has four products, and its two inputs and gradients have scales of their own.
      EXPECT_EQ(saved.largest.size(), 16u);
      ExpectOnAllRanks(saved);
      ExpectLargestOf(saved, 2);
      Save(before, folder, 2);
    }
    MeshSession after(run, *model, to.tensor, to.zero);
    EXPECT_EQ(
        ReadSnapshot(snapshots::Snapshot(folder.PathOf(2)), *model, after.ranks(), after.session()),
        Histories::kContinue);
    EXPECT_EQ(FoundBy(after), saved);
    RunStep(after, run, 2, /*skip=*/true);
    EXPECT_EQ(FoundBy(after), saved);
    RunStep(after, run, 2);
    const Found next = FoundBy(after);
    ExpectOnAllRanks(next);
    ExpectLargestOf(next, kWindow);
    TestWorld().Barrier();
  }
}

// A run with another window, with as many other layers, or whose snapshot has no history, begins
// one, whatever the session held before.
TEST(Fp8DelayedRanks, OtherHistoriesBeginAnew) {
  const TinyRun run = DelayedRun();
  TinyRun wider = run, current = run, first = run, second = run;
  wider.amp.fp8.window = kWindow + 1;
  current.amp.fp8.window = 0;
  first.amp.fp8.skip = {"block.1.*"};
  second.amp.fp8.skip = {"block.0.*"};
  const auto model = models::MakeModel(run.spec);
  struct Change {
    TinyRun from, to;
    Histories expected;
  };
  const std::vector<Change> changes = {{run, wider, Histories::kOtherWindow},
                                       {current, run, Histories::kMissing},
                                       {run, current, Histories::kContinue},
                                       {first, second, Histories::kOtherTensors},
                                       {run, first, Histories::kOtherTensors}};
  for (size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    const auto& [from, to, expected] = changes[i];
    const TempFolder own;
    const snapshots::Folder folder(TestWorld().Broadcast(own.path()));
    MeshSession before(from, *model, /*tensor=*/1, /*zero=*/0);
    before.session().Initialize(*model, 1);
    RunStep(before, from, 0);
    Save(before, folder, 1);
    MeshSession after(to, *model, /*tensor=*/1, /*zero=*/0);
    after.session().Initialize(*model, 1);
    RunStep(after, to, 0);
    EXPECT_EQ(
        ReadSnapshot(snapshots::Snapshot(folder.PathOf(1)), *model, after.ranks(), after.session()),
        expected);
    EXPECT_EQ(after.session().Carries(kLargest), to.amp.fp8.window > 0);
    if (to.amp.fp8.window > 0) {
      const Found found = FoundBy(after);
      for (const float value : found.largest) EXPECT_EQ(value, 0);
      for (const float value : found.history) EXPECT_EQ(value, 0);
    }
    RunStep(after, to, 1);
    TestWorld().Barrier();
  }
}

// Snapshots of earlier versions tell no names: a history of the same shape continues.
TEST(Fp8DelayedRanks, HistoriesWithoutNamesContinueByTheirShape) {
  TinyRun first = DelayedRun(), second = first;
  first.amp.fp8.skip = {"block.1.*"};
  second.amp.fp8.skip = {"block.0.*"};
  const auto model = models::MakeModel(first.spec);
  const TempFolder own;
  const snapshots::Folder folder(TestWorld().Broadcast(own.path()));
  MeshSession before(first, *model, /*tensor=*/1, /*zero=*/0);
  before.session().Initialize(*model, 1);
  RunStep(before, first, 0);
  Save(before, folder, 1);
  if (TestWorld().rank() == 0) {
    snapshots::Manifest manifest = snapshots::Snapshot(folder.PathOf(1)).manifest();
    for (snapshots::TensorRecord& tensor : manifest.tensors) tensor.names_crc.reset();
    WriteFile(folder.PathOf(1) + "/" + snapshots::kManifestFile, ToText(manifest));
  }
  TestWorld().Barrier();
  MeshSession after(second, *model, /*tensor=*/1, /*zero=*/0);
  EXPECT_EQ(
      ReadSnapshot(snapshots::Snapshot(folder.PathOf(1)), *model, after.ranks(), after.session()),
      Histories::kContinue);
  EXPECT_EQ(FoundBy(after), FoundBy(before));
  TestWorld().Barrier();
}

}  // namespace
}  // namespace plimsoll::trainer
