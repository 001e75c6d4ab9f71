#include "snapshots/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tests/snapshots/sample.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::snapshots {
namespace {

class ShardTest : public ::testing::Test {
 protected:
  ShardTest() { Save(snapshots_, 12); }

  std::string Shard(int rank) const {
    return snapshots_.PathOf(12) + "/rank-" + std::to_string(rank) + ".safetensors";
  }

  const TempFolder folder_;
  const Folder snapshots_{folder_.path()};
};

TEST_F(ShardTest, GivesBackWhatWasWritten) {
  const Snapshot snapshot(snapshots_.PathOf(12));
  snapshot.Verify();
  EXPECT_TRUE(HoldsSample(snapshot));
  // Other programs can read shards as safetensors files.
  const formats::SafetensorsReader reader(Shard(0));
  EXPECT_EQ(reader.Require("w").elements, 12);
  EXPECT_EQ(reader.tensors().size(), 3u);
}

TEST_F(ShardTest, AFlippedBitAnywhereIsFoundAndNamed) {
  const std::string content = ReadFile(Shard(1));
  const size_t data = content.size() - 60;  // 12 floats, 12 bytes
  for (size_t at = 0; at < content.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string damaged = content;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      WriteFile(Shard(1), damaged);
      const auto message = MessageOf<UserError>([&] { Snapshot(snapshots_.PathOf(12)).Verify(); });
      ASSERT_TRUE(message) << "byte " << at << ", bit " << bit;
      const std::string expected =
          Shard(1) + (at < data            ? ": the header's checksum does not match"
                      : at < data + 4 * 12 ? ": tensor \"w\": checksum does not match"
                                           : ": tensor \"w.m\": checksum does not match");
      // A length beyond the file's end is found before the checksum is computed.
      const std::string other = Shard(1) + ": its header passes its end";
      if (at < 8 && message->starts_with(other)) continue;
      ASSERT_TRUE(message->starts_with(expected)) << at << ": " << *message;
    }
  }
  WriteFile(Shard(1), content);
  Snapshot(snapshots_.PathOf(12)).Verify();
}

TEST_F(ShardTest, ADamagedSliceIsRefusedAndOthersAreNot) {
  std::string content = ReadFile(Shard(1));
  content.back() = static_cast<char>(content.back() ^ 1);
  WriteFile(Shard(1), content);
  const Snapshot snapshot(snapshots_.PathOf(12));  // headers are unchanged
  const TensorRecord &damaged = *snapshot.manifest().Find("w.m", 0);
  std::vector<std::byte> bytes(12);
  ExpectUserError([&] { snapshot.Read(damaged, damaged.slices[1], bytes); },
                  {Shard(1), "w.m", "checksum"});
  snapshot.Read(damaged, damaged.slices[0], bytes);
}

std::vector<TensorSlice> AllSlices(const Snapshot &snapshot) {
  std::vector<TensorSlice> slices;
  for (const TensorRecord &tensor : snapshot.manifest().tensors) {
    for (const Slice &slice : tensor.slices) slices.push_back({&tensor, &slice});
  }
  return slices;
}

TEST_F(ShardTest, SlicesAreReadInPiecesOfAnySizeByAnyThreads) {
  Save(snapshots_, 13, 1000);
  const Snapshot snapshot(snapshots_.PathOf(13));
  const std::vector<TensorSlice> slices = AllSlices(snapshot);
  ASSERT_EQ(slices.size(), 5u);
  for (const int threads : {1, 2, 5}) {
    for (const size_t bytes : {4, 7, 47'999, 48'000, 48'004, 1'000'000}) {
      if (bytes < 100 && threads != 2) continue;  // many small pieces take long
      ThreadPool pool(threads);
      const HostStaging staging(threads + 1, bytes);
      std::map<std::string, std::vector<std::byte>> whole;
      for (const TensorRecord &tensor : snapshot.manifest().tensors) {
        whole[tensor.name].resize(static_cast<size_t>(SampleSize(tensor.name, 1000)));
      }
      snapshot.Read(slices, staging.buffers(), pool,
                    [&](size_t index, int64_t at, std::span<const std::byte> piece) {
                      const auto &[tensor, slice] = slices[index];
                      at += slice->begin * formats::TypeBytes(tensor->type);
                      std::ranges::copy(piece, whole.at(tensor->name).begin() + at);
                    });
      for (const auto &[name, values] : whole) {
        EXPECT_EQ(values, SampleBytes(13, name, SampleSize(name, 1000)))
            << name << " " << threads << " " << bytes;
      }
    }
  }
}

TEST_F(ShardTest, ADamagedLastPieceIsFound) {
  Save(snapshots_, 13, 1000);
  const std::string file = snapshots_.PathOf(13) + "/rank-1.safetensors";
  std::string content = ReadFile(file);
  content.back() = static_cast<char>(content.back() ^ 0x40);
  WriteFile(file, content);
  const Snapshot snapshot(snapshots_.PathOf(13));
  const std::vector<TensorSlice> slices = AllSlices(snapshot);
  for (const size_t bytes : {1000, 11'999, 12'000}) {
    ThreadPool pool(2);
    const HostStaging staging(2, bytes);
    ExpectUserError(
        [&] {
          snapshot.Read(slices, staging.buffers(), pool,
                        [](size_t, int64_t, std::span<const std::byte>) {});
        },
        {file, "w.m", "checksum"});
  }
}

// By another program, after the headers were checked.
TEST_F(ShardTest, AShortenedFileIsAnError) {
  const Snapshot snapshot(snapshots_.PathOf(12));
  std::filesystem::resize_file(Shard(1), std::filesystem::file_size(Shard(1)) - 1);
  ExpectUserError([&] { snapshot.Verify(); }, {Shard(1), "was changed while it was read"});
}

TEST_F(ShardTest, AnotherSizeIsNamed) {
  const std::string content = ReadFile(Shard(0));
  const auto problem = [&](const std::string &bytes) {
    WriteFile(Shard(0), bytes);
    return UserErrorOf([&] { Snapshot{snapshots_.PathOf(12)}; });
  };
  for (size_t size = 0; size < content.size(); size += 7) {
    ExpectMessage(problem(content.substr(0, size)), {Shard(0), "has " + std::to_string(size)});
  }
  ExpectMessage(problem(content + "x"), {Shard(0), "bytes, not the"});
  std::filesystem::remove(Shard(0));
  ExpectUserError([&] { Snapshot{snapshots_.PathOf(12)}; }, {Shard(0), "cannot be opened"});
}

// Mixed-up files of two snapshots: each is undamaged, but they don't belong together.
TEST_F(ShardTest, AnotherSnapshotsShardIsRefused) {
  Save(snapshots_, 13, 2);
  std::filesystem::copy_file(snapshots_.PathOf(13) + "/rank-0.safetensors", Shard(0),
                             std::filesystem::copy_options::overwrite_existing);
  ExpectUserError([&] { Snapshot{snapshots_.PathOf(12)}; }, {Shard(0), "bytes, not the"});
  Save(snapshots_, 14);
  std::filesystem::copy_file(snapshots_.PathOf(14) + "/rank-0.safetensors", Shard(0),
                             std::filesystem::copy_options::overwrite_existing);
  ExpectUserError([&] { Snapshot(snapshots_.PathOf(12)).Verify(); }, {Shard(0), "checksum"});
}

// A manifest and a shard that are undamaged but contradict each other.
TEST_F(ShardTest, TensorsThatTheManifestDoesNotExpectAreRefused) {
  const Manifest manifest = Snapshot(snapshots_.PathOf(12)).manifest();
  const auto problem = [&](auto &&change) {
    Manifest other = manifest;
    change(other);
    return UserErrorOf([&] { ShardReader(snapshots_.PathOf(12), other, 0); });
  };
  ExpectMessage(problem([](Manifest &m) { m.tensors[0].type = formats::TensorType::kI32; }),
                {"tensor \"w\": has 12 elements of F32, not 12 of I32"});
  ExpectMessage(problem([](Manifest &m) { m.tensors[0].slices[0].elements = 11; }),
                {"tensor \"w\": has 12 elements of F32, not 11"});
  ExpectMessage(problem([](Manifest &m) { m.tensors[2].name = "other"; }),
                {"tensor \"other\": is missing"});
  ExpectMessage(problem([](Manifest &m) { m.tensors.pop_back(); }),
                {"tensors that the manifest does not name"});
}

TEST_F(ShardTest, WhatCannotBeWrittenLeavesNoFile) {
  const std::vector<formats::TensorSpec> specs = {{"w", formats::TensorType::kU8, {4}}};
  EXPECT_THROW(WriteShard(folder_.path(), "short.safetensors", specs,
                          [](const formats::TensorSpec &, TakeBytes) {}),
               InternalError);
  ExpectUserError(
      [&] {
        WriteShard(folder_ / "gone", "x.safetensors", specs,
                   [](const formats::TensorSpec &, TakeBytes) {});
      },
      {folder_ / "gone", "cannot be created"});
  EXPECT_EQ(folder_.Names(), (std::vector<std::string>{"step-000000012"}));
}

}  // namespace
}  // namespace plimsoll::snapshots
