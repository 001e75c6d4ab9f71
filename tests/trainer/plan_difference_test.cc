// What changes from one plan to another: trainer/plan/plan_difference.h.
#include "trainer/plan/plan_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/support/expect_error.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// A plan of two programs, of which one recomputes.
ordered_json PlanOf(int64_t arena) {
  return {
      {"arena_bytes", arena},
      {"host_arena_bytes", 0},
      {"host_input_bytes", 0},
      {"device", "cpu"},
      {"process_parts", nullptr},
      {"bytes_by_role", {{"parameter", 1024}, {"activation", arena - 1024}, {"workspace", 0}}},
      {"threads", 2},
      {"flops_per_step", 2e9},
      {"predicted_step_ms", 50.0},
      {"choices", ordered_json::object()},
      {"decisions", {{"block.*.norm_1", "recompute 0-3"}}},
      {"version", "0.1.0 (abc)"},
      {"config", {{"train.micro_batch", "4"}, {"amp.dtype", "bf16"}, {"run.dir", "runs/a"}}},
      {"given", {"train.micro_batch", "run.dir"}},
      {"passes",
       {{{"program", "train"}, {"pass", "amp"}, {"changed", true}, {"summary", "9 nodes"}},
        {{"program", "train"}, {"pass", "fuse"}, {"changed", true}, {"summary", "sum ×1"}},
        {{"program", "train"}, {"pass", "recompute"}, {"changed", true}, {"summary", "4 nodes"}},
        {{"program", "train"}, {"pass", "fuse"}, {"changed", true}, {"summary", "norms ×2"}},
        {{"program", "evaluate"}, {"pass", "amp"}, {"changed", true}, {"summary", "9 nodes"}},
        {{"program", "evaluate"}, {"pass", "fuse"}, {"changed", false}, {"summary", "none"}}}}};
}

PlanDifference Difference(ordered_json now, ordered_json old) {
  return {{"new.yaml", std::move(now)}, {"old.json", std::move(old)}};
}

TEST(PlanDifference, SaysThatNothingChangesInOneLine) {
  const PlanDifference same = Difference(PlanOf(4096), PlanOf(4096));
  EXPECT_FALSE(same.changed());
  EXPECT_EQ(same.Text(),
            "nothing changes from old.json to new.yaml: arena 4.00 KiB, predicted step 50.0 ms\n");
  EXPECT_THAT(same.Grown(0), IsEmpty());
  EXPECT_EQ(same.Json()["changed"], false);
  EXPECT_EQ(same.Json()["because"], nullptr);
}

TEST(PlanDifference, OtherKeysOfTheSamePlanAreNamed) {
  ordered_json old = PlanOf(4096);
  old["config"]["run.dir"] = "runs/b";
  const std::string text = Difference(PlanOf(4096), old).Text();
  EXPECT_THAT(text, StartsWith("nothing changes"));
  EXPECT_THAT(text, HasSubstr("keys that differ: run.dir"));
}

// The figures first, of old and new, with the one key that moved; a folder of results moves none.
TEST(PlanDifference, NamesTheKeyThatAloneWasChanged) {
  ordered_json now = PlanOf(8192);
  now["predicted_step_ms"] = 49.0;
  now["flops_per_step"] = 4e9;
  now["config"]["train.micro_batch"] = "8";
  now["config"]["run.dir"] = "runs/b";
  const PlanDifference found = Difference(now, PlanOf(4096));
  EXPECT_TRUE(found.changed());
  EXPECT_EQ(found.Text(), R"(arena           4.00 KiB → 8.00 KiB, +4.00 KiB, +100.0 %
predicted step  50.0 ms → 49.0 ms, -1.00 ms, -2.0 %
from old.json to new.yaml
because train.micro_batch: 4 → 8

Bytes at the peak
  activations         3.00 KiB → 7.00 KiB, +4.00 KiB, +133.3 %

FLOPs a step: 2G → 4G

Keys
  train.micro_batch: 4 → 8
  run.dir: runs/a → runs/b
)");
  const ordered_json json = found.Json();
  EXPECT_EQ(json["because"], "train.micro_batch: 4 → 8");
  EXPECT_EQ(json["arena_bytes"], (ordered_json{{"old", 4096}, {"new", 8192}, {"growth", 1.0}}));
  EXPECT_EQ(json["predicted_step_ms"]["growth"], -0.02);
  EXPECT_EQ(json["host_bytes"]["growth"], nullptr);
  EXPECT_EQ(json["bytes_by_role"].dump(), R"({"activation":{"old":3072,"new":7168}})");
  EXPECT_EQ(json["config"]["run.dir"]["new"], "runs/b");
  EXPECT_THAT(json["not_compared"], IsEmpty());
}

TEST(PlanDifference, NamesNoReasonWhereTwoKeysDiffer) {
  ordered_json now = PlanOf(8192);
  now["config"]["train.micro_batch"] = "8";
  now["config"]["amp.dtype"] = "fp32";
  now["given"].push_back("amp.dtype");
  const PlanDifference found = Difference(now, PlanOf(4096));
  EXPECT_THAT(found.Text(), HasSubstr("from old.json to new.yaml; 2 keys differ\n"));
  EXPECT_THAT(found.Text(), Not(HasSubstr("because")));
  EXPECT_EQ(found.Json()["because"], nullptr);
}

// A key that neither side gives follows from others, or has another default in that version.
TEST(PlanDifference, KeysThatNobodyGaveAreNoReason) {
  ordered_json now = PlanOf(8192);
  now["config"]["amp.dtype"] = "fp32";
  now["version"] = "0.2.0 (def)";
  const PlanDifference found = Difference(now, PlanOf(4096));
  EXPECT_THAT(found.Text(), HasSubstr("because the program's version: 0.1.0 (abc) → 0.2.0 (def)"));
  EXPECT_THAT(found.Json()["config"], IsEmpty());
  now["version"] = "0.1.0 (abc)";
  EXPECT_THAT(Difference(now, PlanOf(4096)).Text(), HasSubstr("neither keys nor versions differ"));
}

TEST(PlanDifference, TheMachinesThreadsAreAReasonOnCpus) {
  ordered_json now = PlanOf(8192);
  now["threads"] = 16;
  EXPECT_EQ(Difference(now, PlanOf(4096)).Json()["because"], "train.threads: 2 → 16");
  now["device"] = "cuda";
  now["process_parts"] = {{"gpu", "NVIDIA A100"}};
  ordered_json old = PlanOf(4096);
  old["device"] = "cuda";
  old["process_parts"] = {{"gpu", "NVIDIA H200"}};
  EXPECT_EQ(Difference(now, old).Json()["because"], "--device: NVIDIA H200 → NVIDIA A100");
}

// A run's plan.json has the value that was chosen where the file says auto.
TEST(PlanDifference, AChosenValueIsNoOtherKey) {
  ordered_json now = PlanOf(4096), old = PlanOf(4096);
  for (ordered_json* plan : {&now, &old}) {
    (*plan)["given"].push_back("memory.weights");
    (*plan)["choices"] = {{"memory.weights", "host"}};
  }
  now["config"]["memory.weights"] = "auto";
  old["config"]["memory.weights"] = "host";
  EXPECT_THAT(Difference(now, old).Text(), Not(HasSubstr("keys that differ")));
  old["choices"]["memory.weights"] = "device";
  const std::string text = Difference(now, old).Text();
  EXPECT_THAT(text, HasSubstr("Chosen\n  memory.weights: device → host\n"));
}

// A pass that ran twice is one row, and so are programs in which it changed alike.
TEST(PlanDifference, ListsPassesByWhatTheyChange) {
  ordered_json now = PlanOf(4096);
  now["passes"][0]["summary"] = now["passes"][4]["summary"] = "11 nodes";
  now["passes"][2]["changed"] = false;  // recompute
  now["passes"][3]["summary"] = "norms ×3";
  const PlanDifference found = Difference(now, PlanOf(4096));
  EXPECT_THAT(found.Text(), HasSubstr("\nPasses\n"
                                      "  amp (evaluate, train): 9 nodes → 11 nodes\n"
                                      "  fuse (train): sum ×1; norms ×2 → sum ×1; norms ×3\n"
                                      "  recompute (train): 4 nodes → changes nothing\n"));
  ASSERT_EQ(found.Json()["passes"].size(), 3u);
  EXPECT_EQ(found.Json()["passes"][2]["new"], nullptr);
}

// Of programs that only one plan has, what passes did is not compared; those that ran nowhere else
// are named.
TEST(PlanDifference, NamesProgramsThatOnlyOnePlanHas) {
  ordered_json now = PlanOf(4096);
  for (size_t i = 0; i < 4; ++i) now["passes"][i]["program"] = "train_last";
  now["passes"][2]["pass"] = "low_gradients";
  const std::string text = Difference(now, PlanOf(4096)).Text();
  EXPECT_THAT(text, HasSubstr("  recompute (train): 4 nodes → changes nothing\n"));
  EXPECT_THAT(text, HasSubstr("  low_gradients (train_last): changed nothing → 4 nodes\n"));
  EXPECT_THAT(text, HasSubstr("  programs: train → train_last\n"));
  EXPECT_THAT(text, Not(HasSubstr("amp")));
}

TEST(PlanDifference, ListsWhatWasDecidedOfTensors) {
  ordered_json now = PlanOf(4096);
  now["decisions"] = {{"block.*.norm_1", "recompute 0-1; offload 2-3"}, {"embed", "recompute"}};
  EXPECT_THAT(Difference(now, PlanOf(4096)).Text(),
              HasSubstr("  block.*.norm_1: recompute 0-3 → recompute 0-1; offload 2-3\n"
                        "  embed: kept on the device → recompute\n"));
  EXPECT_THAT(Difference(PlanOf(4096), now).Text(),
              HasSubstr("  embed: recompute → kept on the device\n"));
}

// Of all figures that may grow, each alone; shrinking is no growth.
TEST(PlanDifference, GrowthAboveAShareIsFound) {
  const ordered_json old = PlanOf(4096);
  ordered_json now = old;
  now["predicted_step_ms"] = 50.5;
  EXPECT_THAT(Difference(now, old).Grown(0.01), IsEmpty());
  EXPECT_THAT(Difference(now, old).Grown(0.009),
              ElementsAre("predicted step 50.0 ms → 50.5 ms, +0.50 ms, +1.0 %"));
  EXPECT_THAT(Difference(old, now).Grown(0), IsEmpty());
  now["predicted_step_ms"] = 50.0 * (1 + 1e-12);  // added in another order
  EXPECT_FALSE(Difference(now, old).changed());
  now["predicted_step_ms"] = 50.0 * (1 + 1e-8);
  EXPECT_EQ(Difference(now, old).Grown(0).size(), 1u);
  now = old;
  now["arena_bytes"] = 4097;
  EXPECT_THAT(Difference(now, old).Grown(0),
              ElementsAre("arena 4.00 KiB → 4.00 KiB, +1 B, +0.02 %"));
  EXPECT_THAT(Difference(now, old).Grown(0.001), IsEmpty());
  now = old;
  now["host_input_bytes"] = 512;  // from nothing: more than any share
  EXPECT_THAT(Difference(now, old).Grown(10), ElementsAre("host 0 B → 512 B, +512 B"));
}

// Of an older version: what its file lacks is named, what it has besides is ignored.
TEST(PlanDifference, NamesWhatAFileLacks) {
  const NamedPlan old = ParsePlan(
      R"({"arena_bytes": 4096, "unknown": [1], "bytes_by_role": {"tape": 64}})", "old.json");
  const PlanDifference found({"new.yaml", PlanOf(8192)}, old);
  const std::string text = found.Text();
  EXPECT_THAT(text, StartsWith("arena           4.00 KiB → 8.00 KiB, +4.00 KiB, +100.0 %\n"
                               "predicted step  50.0 ms\n"
                               "from old.json to new.yaml\n"));
  EXPECT_THAT(text, HasSubstr("  tape                64 B → 0 B, -64 B, -100.0 %\n"));
  EXPECT_THAT(found.Json()["not_compared"],
              ElementsAre("host_arena_bytes", "predicted_step_ms", "passes", "decisions", "choices",
                          "flops_per_step", "config", "version"));
  EXPECT_THAT(text, HasSubstr("not compared, as old.json lacks them: host_arena_bytes"));
  EXPECT_EQ(found.Json()["host_bytes"]["old"], nullptr);
  ExpectUserError([&] { found.Grown(0.01); },
                  {"old.json: has no host_bytes, which --fail-above compares"});
}

TEST(PlanDifference, RefusesMembersOfTheWrongType) {
  const auto refused = [](const std::string& text, const std::string& part) {
    SCOPED_TRACE(text);
    ASSERT_TRUE(LooksLikePlan(text));
    ExpectUserError([&] { ParsePlan(text, "old.json"); }, {"old.json", part});
  };
  refused("{\n\"arena_bytes\": 1,\n]", "line 3");
  refused(R"({"front": [{"arena_bytes": 1}]})", "old.json:1: is neither a run file nor a plan");
  refused(R"({"arena_bytes": "many"})", "arena_bytes: expected an integer");
  refused(R"({"arena_bytes": -1})", "arena_bytes: expected an integer of at least 0");
  refused(R"({"arena_bytes": 1, "predicted_step_ms": []})", "predicted_step_ms: expected a number");
  refused(R"({"arena_bytes": 1, "bytes_by_role": {"state": 0.5}})", "bytes_by_role.state");
  refused(R"({"arena_bytes": 1, "passes": [{"pass": "amp"}]})", "passes");
  refused(R"({"arena_bytes": 1, "config": {"amp.dtype": 1}})", "config.amp.dtype");
  refused(R"({"arena_bytes": 1, "given": "all"})", "given");
  EXPECT_FALSE(LooksLikePlan("model: {arena_bytes: 1}"));
  EXPECT_FALSE(LooksLikePlan("# {\"arena_bytes\"}"));
}

}  // namespace
}  // namespace plimsoll::trainer
