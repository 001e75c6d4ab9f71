#include "snapshots/manifest.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/support/expect_error.h"

namespace plimsoll::snapshots {
namespace {

using formats::TensorType;

Manifest Sample() {
  Manifest manifest{.program = "0.1 (abc)", .step = 40, .run = R"({"mesh":[2,1],"seed":7})"};
  manifest.shards = {{"rank-0.safetensors", 500, 0xdeadbeef}, {"rank-1.safetensors", 300, 7}};
  manifest.tensors = {
      {"w", 0, 2, TensorType::kF32, {4, 6}, {{0, 0, 12, 1}, {1, 12, 12, 0x80000000}}},
      {"w", 1, 2, TensorType::kF32, {4, 3}, {{0, 0, 0, 0}}},
      {"count", 0, 1, TensorType::kI32, {}, {{1, 0, 1, 9}}}};
  manifest.tensors[1].slices = {{2, 0, 12, 5}};
  manifest.shards.push_back({"rank-2.safetensors", 200, 8});
  return manifest;
}

std::string ProblemOf(const Manifest& manifest) {
  return UserErrorOf([&] { ParseManifest(ToText(manifest), "m.json"); });
}

TEST(Manifest, SaysAgainWhatItWasTold) {
  const Manifest read = ParseManifest(ToText(Sample()), "m.json");
  EXPECT_EQ(ToText(read), ToText(Sample()));
  EXPECT_EQ(read.program, "0.1 (abc)");
  EXPECT_EQ(read.step, 40);
  EXPECT_EQ(read.run, R"({"mesh":[2,1],"seed":7})");
  ASSERT_NE(read.Find("w", 0), nullptr);
  EXPECT_EQ(read.Find("w", 0)->slices[1].crc, 0x80000000);
  EXPECT_EQ(read.Find("w", 1)->elements(), 12);
  EXPECT_EQ(read.Find("w", 2), nullptr);
  EXPECT_EQ(read.shards[0].header_crc, 0xdeadbeef);
}

TEST(Manifest, TensorsKnowTheirOwner) {
  Manifest manifest = Sample();
  manifest.tensors.push_back(
      {"q1", 0, 1, TensorType::kF32, {2}, {{1, 0, 2, 9}}, "count", "average"});
  const Manifest read = ParseManifest(ToText(manifest), "m.json");
  ASSERT_NE(read.FindOwned("count", "average", 0), nullptr);
  EXPECT_EQ(read.FindOwned("count", "average", 0)->name, "q1");
  EXPECT_EQ(read.FindOwned("count", "average", 1), nullptr);
  EXPECT_EQ(read.FindOwned("count", "moment", 0), nullptr);
  manifest.tensors.back().as = "";
  EXPECT_NE(ProblemOf(manifest).find("of: goes with \"as\""), std::string::npos);
}

TEST(Manifest, HistoriesKnowTheChecksumOfTheirNames) {
  Manifest manifest = Sample();
  manifest.tensors.push_back(
      {"q1", 0, 1, TensorType::kF32, {2}, {{1, 0, 2, 9}}, "count", "history", 0x00c0ffee});
  const Manifest read = ParseManifest(ToText(manifest), "m.json");
  EXPECT_EQ(read.Find("q1", 0)->names_crc, 0x00c0ffeeu);
  EXPECT_EQ(read.Find("count", 0)->names_crc, std::nullopt);
  EXPECT_EQ(ToText(read), ToText(manifest));
}

// Those of earlier versions do by their names.
TEST(Manifest, NamesTellOwnersWhereNothingElseDoes) {
  Manifest manifest = Sample();
  for (const char* name : {"w.m", "w.m.scale", "w.v", "w.remainder", "u.m", "count.ema"}) {
    manifest.tensors.push_back({name, 0, 1, TensorType::kI32, {}, {{0, 0, 1, 9}}});
  }
  const Manifest read = ParseManifest(ToText(manifest), "m.json");
  EXPECT_EQ(read.FindOwned("w", "moment", 0)->name, "w.m");
  EXPECT_EQ(read.FindOwned("w.m", "scale", 0)->name, "w.m.scale");
  EXPECT_EQ(read.FindOwned("w", "variance", 0)->name, "w.v");
  EXPECT_EQ(read.FindOwned("w", "remainder", 0)->name, "w.remainder");
  EXPECT_EQ(read.FindOwned("count", "average", 0)->name, "count.ema");
  EXPECT_EQ(read.Find("u.m", 0)->owner, "");
}

TEST(Manifest, AFlippedBitAnywhereIsFound) {
  const std::string text = ToText(Sample());
  for (size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const auto message = MessageOf<UserError>([&] { ParseManifest(damaged, "m.json"); });
      ASSERT_TRUE(message) << "byte " << at << ", bit " << bit;
      ASSERT_EQ(message->rfind("m.json: ", 0), 0u) << *message;
    }
  }
}

TEST(Manifest, ATextThatWasCutOffIsFound) {
  const std::string text = ToText(Sample());
  for (size_t size = 0; size < text.size(); ++size) {
    ExpectUserError([&] { ParseManifest(text.substr(0, size), "m.json"); }, {"m.json: checksum"});
  }
  ExpectUserError([&] { ParseManifest(text + "\n", "m.json"); }, {"m.json: checksum"});
}

TEST(Manifest, AnotherFormatIsSaidToBeOne) {
  std::string text = ToText(Sample());
  text = text.substr(0, text.find("\"crc32c\": \""));
  const std::string format = "\"format\": 1";
  text.replace(text.find(format), format.size(), "\"format\": 2");
  ExpectUserError([&] { ParseManifest(WithChecksum(text), "m.json"); },
                  {"m.json: format: is not 1", "another version"});
}

// With the right checksum, as a faulty program would write it.
TEST(Manifest, WhatIsNotRightInItselfIsRefused) {
  const auto with = [](auto&& change) {
    Manifest manifest = Sample();
    change(manifest);
    return ProblemOf(manifest);
  };
  using M = Manifest&;
  const auto has = [](const std::string& message, const std::string& part) {
    return message.find(part) != message.npos ? "" : "no '" + part + "' in: " + message;
  };
  EXPECT_EQ("", has(with([](M m) { m.step = -1; }), "step"));
  EXPECT_EQ("", has(with([](M m) { m.run = "[]"; }), "run"));
  EXPECT_EQ("", has(with([](M m) { m.shards[0].file = "../w"; }), "shards[0].file"));
  EXPECT_EQ("", has(with([](M m) { m.shards[0].file = ""; }), "shards[0].file"));
  EXPECT_EQ("", has(with([](M m) { m.shards[0].file = ".."; }), "shards[0].file"));
  EXPECT_EQ("", has(with([](M m) { m.shards[0].file = "manifest.json"; }), "shards[0].file"));
  EXPECT_EQ("", has(with([](M m) { m.shards[1].file = m.shards[0].file; }), "is there twice"));
  EXPECT_EQ("", has(with([](M m) { m.shards[0].bytes = -1; }), "shards[0].bytes"));
  EXPECT_EQ("", has(with([](M m) { m.tensors[0].part = 2; }), "tensors[0].part"));
  EXPECT_EQ("", has(with([](M m) { m.tensors[1].part = 0; }), "\"w\": a part is there twice"));
  EXPECT_EQ("", has(with([](M m) { m.tensors[1].parts = 3; }), "\"w\": parts differ"));
  EXPECT_EQ("", has(with([](M m) { m.tensors.erase(m.tensors.begin() + 1); }),
                    "\"w\": a part is missing"));
  EXPECT_EQ("", has(with([](M m) { m.tensors[0].shape = {4, -6}; }), "tensors[0].shape"));
  EXPECT_EQ("", has(with([](M m) {
                      m.tensors[0].shape = {int64_t{1} << 40, int64_t{1} << 40};
                    }),
                    "tensors[0].shape: is too large"));
  EXPECT_EQ("", has(with([](M m) { m.tensors[0].shape = {5, 6}; }), "do not cover"));
  EXPECT_EQ("", has(with([](M m) { m.tensors[0].shape = {3, 6}; }), "pass the tensor's end"));
  EXPECT_EQ("", has(with([](M m) { m.tensors[0].slices[1].begin = 11; }), "slices[1].begin"));
  EXPECT_EQ("", has(with([](M m) { m.tensors[0].slices[1].begin = 13; }), "slices[1].begin"));
  EXPECT_EQ("", has(with([](M m) { m.tensors[0].slices[0].shard = 3; }), "slices[0].shard"));
  EXPECT_EQ("", has(with([](M m) { m.tensors[0].slices[0].shard = -1; }), "slices[0].shard"));
  EXPECT_EQ("",
            has(with([](M m) { m.tensors[0].slices[1].shard = 0; }), "\"w\": is twice in a shard"));
  EXPECT_EQ("", has(with([](M m) { m.shards[1].bytes = 51; }), "passes the end of its shard"));
}

}  // namespace
}  // namespace plimsoll::snapshots
