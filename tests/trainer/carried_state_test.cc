#include "trainer/step/carried_state.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/axes.h"
#include "graph/builder.h"
#include "runtime/state_reads.h"
#include "tests/graph/expect_program.h"
#include "tests/ops/interpreter.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

constexpr char kStep[] = R"(program train
  tensor %x: f32[4,32] input persistent
  tensor %a: f32[32,32] parameter persistent
  tensor %a.grad: f32[32,32] gradient persistent of %a as gradient
  tensor %a.m: f32[512] optimizer_state persistent host
  tensor %b: f32[2,2] parameter persistent
  tensor %count: f32[] optimizer_state persistent
  tensor %loss: f32[] metric persistent
  %y: f32[4,32] = linear(%x, %a, _)
  %loss = sum(%y)
  %b = scale(%b) {factor=2}
  %count = scale(%count) {factor=2}
  %a = scale(%a) {factor=2}
)";

// Of state that two ranks both have, each copies its part, if the tensor is large enough.
// Gradients, inputs and metrics end with the step.
TEST(CarriedState, IsCopied) {
  const graph::Program step = graph::Parse(kStep);
  const graph::Program* const programs[] = {&step, &step};
  CompileOptions options;
  options.mesh = Mesh({DataAxis(2)});
  options.device = runtime::DeviceKind::kCuda;
  graph::ExpectProgram(*CopyCarriedState(programs, options),
                       R"(program snapshot
  tensor %a: f32[32,32] parameter persistent
  tensor %a.snapshot: f32[512] snapshot persistent host
  tensor %a.m: f32[512] optimizer_state persistent host
  tensor %a.m.snapshot: f32[512] snapshot persistent host
  tensor %b: f32[2,2] parameter persistent
  tensor %b.snapshot: f32[2,2] snapshot persistent host
  tensor %count: f32[] optimizer_state persistent
  tensor %count.snapshot: f32[] snapshot persistent host
forward
  %a.own: f32[512] view %a+own = own_part(%a) {d0=512, rank=1} @a !snapshot
  %a.snapshot = copy_start(%a.own) @a !snapshot
  %a.m.snapshot = copy_start(%a.m) @a.m !snapshot
  %b.snapshot = copy_start(%b) @b !snapshot
  %count.snapshot = copy_start(%count) @count !snapshot
  %a.snapshot.done: f32[512] host view %a.snapshot+0 = copy_done(%a.snapshot, %a.own) @a.snapshot !snapshot
  %a.m.snapshot.done: f32[512] host view %a.m.snapshot+0 = copy_done(%a.m.snapshot, %a.m) @a.m.snapshot !snapshot
  %b.snapshot.done: f32[2,2] host view %b.snapshot+0 = copy_done(%b.snapshot, %b) @b.snapshot !snapshot
  %count.snapshot.done: f32[] host view %count.snapshot+0 = copy_done(%count.snapshot, %count) @count.snapshot !snapshot
)");
}

// In groups of so many bytes, what changes first before what changes later or never. In a
// group the order is that of the arena.
TEST(CarriedState, IsCopiedInTheOrderOfChanges) {
  const graph::Program step = graph::Parse(kStep);
  const graph::Program* const programs[] = {&step};
  const auto order = [&](int64_t group_bytes) {
    CompileOptions options;
    options.snapshot_group_bytes = group_bytes;
    const auto copy = CopyCarriedState(programs, options);
    std::string text;
    for (const graph::Node& node : copy->nodes()) {
      text += node.op->name == "copy_start" ? node.scope + " " : "; ";
    }
    return text;
  };
  EXPECT_EQ(order(1), "b count ; ; a ; a.m ; ");  // a 64th of all bytes
  EXPECT_EQ(order(4115), "b count ; ; a ; a.m ; ");
  EXPECT_EQ(order(4116), "a b count ; ; ; a.m ; ");
  EXPECT_EQ(order(1 << 20), "a a.m b count ; ; ; ; ");
}

// A program of many tensors has few groups.
TEST(CarriedState, HasFewGroups) {
  graph::Program step("train");
  graph::Builder g(step);
  for (int i = 0; i < 1000; ++i) {
    g.Persistent("p" + std::to_string(i), graph::Role::kParameter, {graph::DType::kFloat32, {64}});
  }
  const graph::Program* const programs[] = {&step};
  CompileOptions options;
  options.snapshot_group_bytes = 1;
  const auto copy = CopyCarriedState(programs, options);
  EXPECT_EQ(copy->nodes().size(), 2000);
  const size_t groups = runtime::StateReads(*copy).marks().size();
  EXPECT_LE(groups, 128);
  EXPECT_GE(groups, 60);
}

// What a step changes by when, and how much of the snapshot is copied by then, is compared for
// steps that update within the backward pass and behind it.
class WaitsOfSteps : public testing::TestWithParam<TinyRun> {};

int64_t Bytes(const graph::Tensor& tensor) { return tensor.type.bytes(); }

// A node waits for the tensors that it and the nodes before it change, and for no other but what is
// left of a group.
TEST_P(WaitsOfSteps, EarlyNodesDoNotWaitForLateTensors) {
  TinyRun run = GetParam();
  run.copy_after = 0;
  run.copied_at_once = 1;
  const auto model = models::MakeModel(run.spec);
  const CompiledStep compiled = Compile(*model, OptionsOf(run, *model, runtime::DeviceKind::kCpu));
  const graph::Program& snapshot = *compiled.programs[compiled.step.snapshot];
  const runtime::StateReads reads(snapshot);
  ASSERT_GT(reads.marks().size(), 20);

  std::vector<int64_t> copied;  // bytes, by mark
  int64_t bytes = 0;
  for (int n = 0; n < static_cast<int>(snapshot.nodes().size()); ++n) {
    const graph::Node& node = snapshot.nodes()[n];
    if (node.op->name == "copy_start") bytes += Bytes(snapshot.tensor(node.outputs[0]));
    if (reads.marks()[copied.size()] == n) copied.push_back(bytes);
  }
  std::set<std::string> changed;
  int64_t changed_bytes = 0;
  int reached = runtime::StateReads::kNoMark, waits = 0;
  for (const graph::Program* program : StepProgramsOf(compiled)) {
    for (const graph::Node& node : program->nodes()) {
      for (const graph::TensorId id : runtime::StateChangedBy(*program, node)) {
        const graph::Tensor& tensor = program->tensor(id);
        ASSERT_NE(snapshot.Find(CopyName(tensor.name)), graph::kNoTensor) << tensor.name;
        if (changed.insert(tensor.name).second) changed_bytes += Bytes(tensor);
      }
      const int mark = reads.MarkBefore(*program, node);
      if (mark <= reached) continue;
      reached = mark;
      ++waits;
      EXPECT_GE(copied[mark], changed_bytes) << node.scope;
      EXPECT_LE(copied[mark], changed_bytes + bytes / 64) << node.scope;
    }
  }
  EXPECT_GT(waits, 10);
}

// The programs of step and snapshot as one, in which each copy comes as late as the step allows.
graph::Program WithLateCopies(const graph::Program& step, const graph::Program& snapshot) {
  graph::Program both("both");
  std::map<std::string, graph::TensorId> ids;
  const auto take = [&](const graph::Program& from, graph::Node node) {
    const std::function<graph::TensorId(graph::TensorId)> id_of = [&](graph::TensorId id) {
      if (id == graph::kNoTensor) return id;
      graph::Tensor tensor = from.tensor(id);
      const auto found = ids.find(tensor.name);
      if (found != ids.end()) return found->second;
      if (tensor.alias) tensor.alias->base = id_of(tensor.alias->base);
      const std::string name = tensor.name;
      return ids[name] = both.AddTensor(std::move(tensor));
    };
    for (graph::TensorId& id : node.inputs) id = id_of(id);
    for (graph::TensorId& id : node.outputs) id = id_of(id);
    node.workspace = id_of(node.workspace);
    both.mutable_nodes().push_back(std::move(node));
  };
  const runtime::StateReads reads(snapshot);
  int taken = 0;  // nodes of the snapshot
  const auto take_until = [&](int end) {
    for (; taken < end; ++taken) take(snapshot, snapshot.nodes()[taken]);
  };
  for (const graph::Node& node : step.nodes()) {
    const int mark = reads.MarkBefore(step, node);
    if (mark != runtime::StateReads::kNoMark) take_until(reads.marks()[mark] + 1);
    take(step, node);
  }
  take_until(static_cast<int>(snapshot.nodes().size()));
  return both;
}

TEST_P(WaitsOfSteps, LateCopiesHaveTheStateBeforeTheStep) {
  TinyRun run = GetParam();
  run.copy_after = 0;
  const auto model = models::MakeModel(run.spec);
  const CompiledStep compiled = Compile(*model, OptionsOf(run, *model, runtime::DeviceKind::kCpu));
  ASSERT_EQ(StepProgramsOf(compiled).size(), 1);
  const graph::Program both =
      WithLateCopies(*StepProgramsOf(compiled).front(), *compiled.programs[compiled.step.snapshot]);
  ThreadPool pool(1);
  ops::Interpreter interpreter(both, pool);
  std::map<std::string, std::vector<std::byte>> before;
  std::mt19937 random(1);
  for (const graph::Tensor& tensor : both.tensors()) {
    const graph::TensorId id = both.Require(tensor.name);
    if (tensor.alias || !(tensor.persistent || tensor.role == graph::Role::kInput)) continue;
    std::vector<double> values(static_cast<size_t>(tensor.type.shape.elements()));
    for (double& value : values) value = static_cast<double>(random() % 8 + 1) / 8;
    if (!graph::IsFloat(tensor.type.dtype)) values.assign(values.size(), 1);
    interpreter.Set(id, values);
    const std::span<const std::byte> bytes = interpreter.Bytes(id);
    if (graph::OutlivesSteps(tensor)) before[tensor.name].assign(bytes.begin(), bytes.end());
  }
  interpreter.Run();
  size_t changed = 0;
  for (const auto& [name, bytes] : before) {
    EXPECT_TRUE(std::ranges::equal(interpreter.Bytes(both.Require(CopyName(name))), bytes)) << name;
    changed += !std::ranges::equal(interpreter.Bytes(both.Require(name)), bytes);
  }
  EXPECT_GT(changed, before.size() / 2);
}

std::vector<TinyRun> SteppingRuns() {
  TinyRun run;
  run.spec.layers = 4;
  run.update.clip_grad_norm = 0;
  std::vector<TinyRun> runs(6, run);
  for (size_t i = 1; i < runs.size(); ++i) runs[i].update_in_backward = true;
  runs[2].accumulate = runs[2].micro_steps_per_program = 2;
  runs[2].blocks_first = true;
  runs[3].weights_on_host = runs[3].state_on_host = true;
  runs[4].update.average = ops::WeightAverageOptions{.decay = 0.75};
  runs[4].amp.dtype = graph::DType::kBFloat16;
  runs[5].state_on_host = true;
  runs[5].update.state_dtype = optim::StateDType::kInt8;
  return runs;
}

INSTANTIATE_TEST_SUITE_P(Ways, WaitsOfSteps, testing::ValuesIn(SteppingRuns()));

class CopiedState : public testing::TestWithParam<TinyRun> {};

TEST_P(CopiedState, IsThatBetweenTwoSteps) {
  TinyRun run = GetParam();
  run.steps = 3;
  const TinyResult shorter = Train(run);
  run.steps = 6;
  const TinyResult expected = Train(run);
  run.copy_after = 2;
  run.executor.check_arena = !run.caching;
  const TinyResult copied = Train(run);
  EXPECT_EQ(copied.losses, expected.losses);
  EXPECT_EQ(copied.state, expected.state);
  EXPECT_EQ(copied.copied, shorter.state);
  EXPECT_NE(copied.copied, copied.state);
  int64_t bytes = 0;
  for (const auto& [name, values] : copied.copied) bytes += (int64_t(values.size()) + 63) / 64 * 64;
  EXPECT_EQ(copied.arena_bytes, expected.arena_bytes + bytes);
  if (!run.caching) {
    EXPECT_EQ(copied.used_bytes, copied.arena_bytes);
  }
}

std::vector<TinyRun> Runs() {
  std::vector<TinyRun> runs(8);
  runs[1].amp.dtype = graph::DType::kBFloat16;
  runs[1].accumulate = 3;
  runs[2].state_on_host = true;
  runs[2].update.state_dtype = optim::StateDType::kInt8;
  runs[3].caching.emplace();
  runs[4].amp.dtype = graph::DType::kFloat16;
  runs[4].update.loss_scale = ops::LossScaleOptions{};
  runs[4].executor.poison = true;
  runs[5].update.clip_grad_norm = 0;
  runs[5].update_in_backward = true;
  runs[5].update.average = ops::WeightAverageOptions{.decay = 0.75};
  runs[6].update.clip_grad_norm = 0;
  runs[6].update_in_backward = true;
  runs[6].accumulate = runs[6].micro_steps_per_program = 2;
  runs[6].blocks_first = true;
  runs[7] = runs[6];
  runs[7].weights_on_host = runs[7].state_on_host = true;
  return runs;
}

INSTANTIATE_TEST_SUITE_P(Ways, CopiedState, testing::ValuesIn(Runs()));

}  // namespace
}  // namespace plimsoll::trainer
