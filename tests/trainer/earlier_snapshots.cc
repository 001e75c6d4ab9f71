#include "tests/trainer/earlier_snapshots.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/crc32c.h"
#include "formats/safetensors.h"
#include "snapshots/snapshot.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr char kFolder[] = "tests/trainer/earlier_snapshots";

json After(const std::string& snapshot) {
  return json::parse(ReadFile(fmt::format("{}/{}/after.json", kFolder, snapshot)));
}

template <typename Choose>
std::vector<Continuation> Continuations(Choose choose) {
  std::vector<Continuation> chosen;
  for (const std::string& snapshot : EarlierSnapshots()) {
    const json after = After(snapshot);
    const json& all = after.at("continuations");
    for (size_t i = 0; i < all.size(); ++i) {
      if (choose(all[i].at("ranks").get<int>())) chosen.push_back({snapshot, i});
    }
  }
  return chosen;
}

// Runs the program in a copy of the case in `work`.
void Run(const std::string& snapshot, bool with_states, int ranks, const std::string& arguments,
         const std::string& work) {
  const std::string program = with_states ? "tests/trainer/plimsoll_with_states" : "app/plimsoll";
  const std::string ranked =
      ranks == 1 ? "" : fmt::format("\"$here\"/tests/support/mpirun.sh {} ", ranks);
  ExpectExit(0, RunShell(fmt::format("set -e; here=$PWD; cd '{}'\n"
                                     "cp \"$here\"/{}/{}/run.yaml .\n"
                                     "tar xzf \"$here\"/{}/{}/start.tar.gz\n"
                                     "{}\"$here\"/{} {}",
                                     work, kFolder, snapshot, kFolder, snapshot, ranked, program,
                                     arguments)));
}

// Of each tensor "name part/parts type shape CRC-32C".
std::set<std::string> Tensors(const snapshots::Snapshot& snapshot) {
  std::set<std::string> tensors;
  for (const snapshots::TensorRecord& tensor : snapshot.manifest().tensors) {
    uint32_t crc = 0;
    for (const snapshots::Slice& slice : tensor.slices) {
      std::vector<std::byte> bytes(
          static_cast<size_t>(slice.elements * formats::TypeBytes(tensor.type)));
      snapshot.Read(tensor, slice, bytes);
      crc = Crc32c(bytes, crc);
    }
    tensors.insert(fmt::format("{} {}/{} {} {} {:08x}", tensor.name, tensor.part, tensor.parts,
                               formats::TypeName(tensor.type), json(tensor.shape).dump(), crc));
  }
  return tensors;
}

// What a row lacks of the numbers of an earlier one. It may have further members.
json Differences(const json& earlier, const json& now) {
  json differences = json::object();
  for (const auto& [key, value] : earlier.items()) {
    const json found = now.contains(key) ? now.at(key) : json("missing");
    if (found != value) differences[key] = {{"earlier", value}, {"now", found}};
  }
  return differences;
}

std::vector<std::string> Missing(const std::set<std::string>& from,
                                 const std::set<std::string>& in) {
  std::vector<std::string> missing;
  std::ranges::set_difference(from, in, std::back_inserter(missing));
  return missing;
}

}  // namespace

std::vector<std::string> EarlierSnapshots() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<Continuation> ContinuationsOnOneRank() {
  return Continuations([](int ranks) { return ranks == 1; });
}
std::vector<Continuation> ContinuationsOnRanks() {
  return Continuations([](int ranks) { return ranks > 1; });
}

void ExpectSameContinuation(const Continuation& continuation) {
  const json after = After(continuation.snapshot);
  const json& earlier = after.at("continuations").at(continuation.index);
  std::string arguments = "train run.yaml --resume snapshot";
  for (const std::string& set : earlier.at("sets").get<std::vector<std::string>>()) {
    arguments += " --set '" + set + "'";
  }
  const TempFolder folder;
  Run(continuation.snapshot, after.at("with_states"), earlier.at("ranks"), arguments,
      folder.path());
  if (testing::Test::HasFailure()) return;

  const std::vector<json> rows = JsonLines(folder.Read("run/metrics.jsonl"));
  const json& earlier_rows = earlier.at("rows");
  ASSERT_EQ(rows.size(), earlier_rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(Differences(earlier_rows[i], rows[i]).dump(), "{}") << "row " << i;
  }
  const auto earlier_tensors = earlier.at("tensors").get<std::set<std::string>>();
  const std::set<std::string> tensors =
      Tensors(snapshots::Snapshot(folder / "run/snapshots/step-000000004"));
  EXPECT_EQ(Missing(earlier_tensors, tensors), std::vector<std::string>()) << "of earlier tensors";
  EXPECT_EQ(Missing(tensors, earlier_tensors), std::vector<std::string>()) << "of today's tensors";
}

void ExpectSameExports(const std::string& snapshot) {
  const json after = After(snapshot);
  ASSERT_FALSE(after.at("exports").empty());
  for (const auto& [what, crc] : after.at("exports").items()) {
    const TempFolder folder;
    Run(snapshot, after.at("with_states"), 1,
        "export snapshot --to exported" + std::string(what == "weights" ? "" : " " + what),
        folder.path());
    if (testing::Test::HasFailure()) return;
    const bool adapter = std::filesystem::exists(folder / "exported/adapter_model.safetensors");
    const std::string file = adapter ? "adapter_model.safetensors" : "model.safetensors";
    EXPECT_EQ(fmt::format("{:08x}", Crc32c(folder.Read("exported/" + file))),
              crc.get<std::string>())
        << what;
  }
}

}  // namespace plimsoll
