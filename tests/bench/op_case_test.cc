// The cases of bench/op fit their ops; and what the bench does with a case runs on a CPU.
#include "bench/op_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "bench/op_device.h"
#include "bench/training.h"
#include "tests/ops/op_runner.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::bench {
namespace {

void RunOnce(const CaseCall& call) {
  RunnerOf<ops::OpRunner, ops::TestTensor>(call, std::memcpy, 1)->Run();
}

std::vector<OpCase> AllCases() {
  std::vector<OpCase> cases = LoadCases("bench/op_cases_cuda.json", "bf16");
  for (OpCase& more : LoadCases("bench/op_cases_cpu.json", "f32")) cases.push_back(more);
  return cases;
}

TEST(OpCase, EachFitsItsOp) {
  for (const OpCase& c : AllCases()) {
    SCOPED_TRACE(c.text);
    const TypedCall typed(c.calls.at(0));
    const graph::Cost cost = graph::CostOf(typed.get());
    EXPECT_TRUE(std::isfinite(cost.flops) && std::isfinite(cost.bytes) && cost.bytes > 0);
    for (const graph::InPlacePair& pair : c.calls[0].in_place) {
      EXPECT_EQ(typed.inputs.at(pair.input), typed.outputs.at(pair.output));
    }
  }
}

// By which its kernels are tested.
TEST(OpCase, TheExamplesOfEachRun) {
  std::set<std::string> ops;
  for (const OpCase& c : AllCases()) ops.insert(c.calls[0].example.op);
  std::set<std::string> ran;
  for (const OpCase& c : ExampleCases()) {
    SCOPED_TRACE(c.text);
    if (ops.contains(c.calls[0].example.op)) RunOnce(c.calls[0]);
    ran.insert(c.calls[0].example.op);
  }
  for (const std::string& op : ops) EXPECT_TRUE(ran.contains(op)) << op;
}

TEST(OpCase, IsReadFromAFile) {
  const TempFolder folder;
  const std::string file = folder.Write("cases.json", R"([
    {"case": "generation", "op": "attention_cached", "type": "f16", "heads": 6, "kv_heads": 2,
     "in_place": [[1, 1], [2, 2]],
     "in": [[3, 1, 120], [3, 2, 5, 12], [3, 2, 5, 12], {"shape": [1], "values": [4]}]},
    {"op": "embedding_dw", "rows": 9, "in": [{"shape": [2, 5], "below": 9}, [2, 5, 8], null]},
    {"op": "linear_dw", "type": "tf32", "bias": false, "unread": [1],
     "in": [{"shape": [4, 8], "fill": "positive"}, [4, 6]]}])");
  const std::vector<OpCase> cases = LoadCases(file, "bf16");
  ASSERT_EQ(cases.size(), 3u);
  EXPECT_EQ(cases[0].text,
            "generation: attention_cached f16[3,1,120] f16[3,2,5,12] f16[3,2,5,12] i32[1] heads=6 "
            "kv_heads=2");
  EXPECT_EQ(cases[0].calls[0].Contents(100)[3]->value(0), 4);
  EXPECT_EQ(cases[1].text, "embedding_dw i32[2,5] bf16[2,5,8] - rows=9");
  EXPECT_EQ(cases[2].text, "linear_dw f32[4,8] f32[4,6] bias=false tf32=true unread=1");
  const auto positive = cases[2].calls[0].Contents(100)[0];
  for (int64_t i = 0; i < 32; ++i) EXPECT_GT(positive->value(i), 0);
  for (const OpCase& c : cases) RunOnce(c.calls[0]);
}

TEST(OpCase, OfWhichOnlyTheFirstElementsDiffer) {
  const TempFolder folder;
  const std::string file =
      folder.Write("cases.json", R"([{"op": "scale", "factor": 1.0, "in": [[600, 1000]]}])");
  const auto runner =
      RunnerOf<ops::OpRunner, ops::TestTensor>(LoadCases(file, "f32")[0].calls[0], std::memcpy, 1);
  runner->Run();
  constexpr int64_t kPeriod = (1 << 18) + 1;
  EXPECT_NE(runner->output(0).at(0), runner->output(0).at(1));
  for (const int64_t i : {0, 1, 70000}) {
    EXPECT_EQ(runner->output(0).at(kPeriod + i), runner->output(0).at(i));
  }
}

TEST(OpCase, MistakesNameFileAndCase) {
  const TempFolder folder;
  const auto load = [&](const char* text) { LoadCases(folder.Write("cases.json", text), "f32"); };
  ExpectUserError([&] { load(R"([{"op": "no_such", "in": [[3]]}])"); }, {"cases.json", "no_such"});
  ExpectUserError([&] { load(R"([{"op": "add", "in": [[3], [4]]}])"); }, {"cases.json", "[4]"});
  ExpectUserError([&] { load(R"([{"op": "add", "type": "f8", "in": []}])"); },
                  {"cases.json", "f8"});
  ExpectUserError([&] { LoadCases(folder / "none.json", "f32"); }, {"none.json"});
}

TEST(OpCase, OpsWithoutOneAreNamed) {
  const std::string none = CountsByOp({}), some = CountsByOp(ExampleCases());
  for (const graph::OpDef* op : graph::OpRegistry::Get().All()) {
    if (op->view) continue;
    EXPECT_NE(none.find(op->name + ": no case\n"), none.npos) << op->name;
    EXPECT_NE(some.find(op->name + ": "), some.npos) << op->name;
  }
  EXPECT_EQ(some.find("no case"), some.npos) << some;
}

TEST(OpCase, TheCallsOfAStepAreCounted) {
  const Training training = LoadTraining(
      "configs/bench/gpt2-124m.yaml",
      {"device=cpu", "model.layers=2", "model.width=96", "model.heads=2", "model.vocab=1024",
       "model.sequence=32", "train.micro_batch=2", "train.accumulate=3"});
  const trainer::CompiledStep compiled = trainer::Compile(*training.model, training.options);
  int64_t nodes = 0, calls = 0;
  for (const trainer::StepEntry& entry : compiled.step.entries) {
    for (const graph::Node& node : compiled.programs[entry.program]->nodes()) {
      nodes += node.op->view ? 0 : entry.times;
    }
  }
  for (const OpCase& c : StepCases(compiled)) {
    SCOPED_TRACE(c.text);
    calls += c.times * static_cast<int64_t>(c.calls.size());
    for (const CaseCall& call : c.calls) RunOnce(call);
  }
  EXPECT_EQ(calls, nodes);
}

}  // namespace
}  // namespace plimsoll::bench
