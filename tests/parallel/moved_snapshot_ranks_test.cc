// A snapshot that other ranks wrote: each rank gets its part of every tensor, and reads no more of
// the files than it must. Started under mpirun.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/axes.h"
#include "models/sharding.h"
#include "snapshots/snapshot.h"
#include "tests/parallel/mesh_session.h"
#include "tests/support/mpi_test_main.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/loaded_state.h"
#include "tests/trainer/tiny_session.h"
#include "trainer/resolve/ranks.h"
#include "trainer/save_and_resume/read_snapshot.h"
#include "trainer/save_and_resume/save_snapshot.h"
#include "trainer/step/compile.h"
#include "trainer/step/saved_tensors.h"

namespace plimsoll::trainer {
namespace {

// Bytes that tell which element they belong to.
void Fill(Session& session, int64_t tensor_rank) {
  for (const StateTensor& tensor : session.State()) {
    const int64_t size = graph::ByteSize(tensor.dtype);
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.elements * size));
    const size_t seed =
        std::hash<std::string>()(tensor.name) + static_cast<size_t>(tensor.split ? tensor_rank : 0);
    for (size_t i = 0; i < bytes.size(); ++i) {
      const size_t at = static_cast<size_t>(tensor.begin * size) + i;
      bytes[i] = static_cast<std::byte>((at * 2654435761u + seed * 40503u) >> 11);
    }
    session.WriteState(tensor, 0, bytes);
  }
}

// What this process has read by calls of the system.
int64_t BytesRead() {
  std::ifstream file("/proc/self/io");
  std::string name;
  int64_t bytes = 0;
  file >> name >> bytes;
  return name == "rchar:" ? bytes : -1;
}

// This rank's elements of the tensor, cut out of the whole.
std::vector<std::byte> Expected(const SavedTensors& saved, const StateTensor& tensor,
                                const models::SplitParameter* split, int64_t tensor_rank) {
  const std::vector<std::byte> whole = saved.Read(tensor.name, tensor.parameter);
  const auto size = static_cast<size_t>(graph::ByteSize(tensor.dtype));
  std::vector<std::byte> part = whole;
  if (split != nullptr) {
    part.resize(static_cast<size_t>(tensor.shape.elements()) * size);
    split->ForPieces(tensor_rank, [&](int64_t in_whole, int64_t in_part, int64_t count) {
      std::copy_n(&whole[static_cast<size_t>(in_whole) * size], static_cast<size_t>(count) * size,
                  &part[static_cast<size_t>(in_part) * size]);
    });
  }
  const auto begin = part.begin() + tensor.begin * static_cast<int64_t>(size);
  return {begin, begin + tensor.elements * static_cast<int64_t>(size)};
}

struct MeshOf {
  int64_t tensor, zero;
};

TEST(MovedSnapshots, EachRankReadsWhatItNeeds) {
  runtime::World& world = TestWorld();
  if (world.size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  for (const bool llama : {false, true}) {
    for (const auto& [from, to] : std::vector<std::pair<MeshOf, MeshOf>>{
             {{1, 1}, {2, 3}}, {{1, 0}, {2, 1}}, {{2, 3}, {1, 3}}, {{2, 1}, {2, 3}}}) {
      SCOPED_TRACE(fmt::format("{}: {} tensor ranks with ZeRO {} to {} with ZeRO {}",
                               llama ? "llama" : "gpt2", from.tensor, from.zero, to.tensor,
                               to.zero));
      TinyRun run;
      run.spec = llama ? models::LlamaSpec({2, 64, 4, 2, 16, 256, 512, 16, false})
                       : models::Gpt2Spec(2, 64, 4, 512, 16);
      run.amp.dtype = graph::DType::kBFloat16;
      const auto model = models::MakeModel(run.spec);
      const TempFolder own;
      const std::string folder = world.Broadcast(own.path());
      snapshots::Manifest manifest;
      {
        MeshSession before(run, *model, from.tensor, from.zero);
        Fill(before.session(), before.ranks().position().at(kTensorAxis));
        const std::string shard = WriteShard(folder, before.session(), before.ranks(), [] {});
        manifest = ManifestOf(world.Gather(shard), 1, "{}", before.ranks());
        if (world.rank() == 0) {
          WriteFile(folder + "/" + std::string(snapshots::kManifestFile),
                    snapshots::ToText(manifest));
        }
        world.Barrier();
      }
      int64_t all = 0;
      for (const snapshots::Shard& shard : manifest.shards) all += shard.bytes;

      MeshSession after(run, *model, to.tensor, to.zero);
      const snapshots::Snapshot snapshot(folder);
      const int64_t read_before = BytesRead();
      ReadSnapshot(snapshot, *model, after.ranks(), after.session());
      const int64_t read = BytesRead() - read_before;
      // Ranks that divide tensors among them need few of the others' slices.
      const bool divided = to.zero == 3 && world.size() == 4;
      EXPECT_LE(read, divided ? all * 3 / 4 : all + 4096) << "of " << all;

      const SavedTensors saved(snapshot, *model, {});
      const auto split = models::SplitParameters(*model, to.tensor);
      const int64_t tensor_rank = after.ranks().position().at(kTensorAxis);
      const auto got = StateBytes(after.session());
      for (const StateTensor& tensor : after.session().State()) {
        const auto found = split.find(tensor.parameter);
        EXPECT_EQ(
            got.at(tensor.name),
            Expected(saved, tensor, found == split.end() ? nullptr : &found->second, tensor_rank))
            << tensor.name;
      }
      world.Barrier();
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
