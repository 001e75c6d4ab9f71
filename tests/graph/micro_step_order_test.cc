// Orders of micro-steps, and that the prover refuses those that would change numbers.
#include "graph/micro_step_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/micro_steps.h"
#include "tests/graph/expect_program.h"
#include "tests/support/expect_error.h"

namespace plimsoll::graph {
namespace {

// Two blocks; a micro-step writes their gradients, or adds to them and updates.
std::string MicroStep(const std::string& a, const std::string& b) {
  return R"(program train
  tensor %x: f32[8,4] input persistent
  tensor %a: f32[4,4] parameter persistent
  tensor %b: f32[4,4] parameter persistent
  tensor %a.grad: f32[4,4] gradient persistent of %a as gradient
  tensor %b.grad: f32[4,4] gradient persistent of %b as gradient
  tensor %lr: f32[] input persistent
forward
  %h: f32[8,4] = linear(%x, %a) @block.0
  %y: f32[8,4] = linear(%h, %b) @block.1
backward
  %b.grad, _ = linear_dw(%h, %y, )" +
         b + R"(, _) {bias=false} @block.1
  %dh: f32[8,4] = linear_dx(%y, %b) @block.1
  %a.grad, _ = linear_dw(%x, %dh, )" +
         a + R"(, _) {bias=false} @block.0
)";
}

// Of three micro-steps, the last of which updates.
Program Joined() {
  Program program = Parse(MicroStep("_", "_"));
  const Program next = Parse(MicroStep("%a.grad", "%b.grad"));
  const Program last = Parse(MicroStep("%a.grad", "%b.grad") + R"(update
  %a, _, _, _ = sgd(%a, %a.grad, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0}
)");
  AppendMicroSteps({&next, &last}, [](const Tensor& tensor) {
    return tensor.name == "x";
  }).Run(program);
  return program;
}

Program Ordered(Program program, const std::vector<size_t>& order) {
  const std::vector<Node> old = program.nodes();
  program.mutable_nodes().clear();
  for (size_t at : order) program.mutable_nodes().push_back(old[at]);
  return program;
}

Stages StagesOf(const Program& program, int (*stage)(const Node&)) {
  Stages stages{.of_nodes = {}, .fixed = std::vector<bool>(program.nodes().size(), true)};
  for (const Node& node : program.nodes()) stages.of_nodes.push_back(stage(node));
  return stages;
}

std::string TornBy(const Program& program, const Stages& stages) {
  const ProvenOrder order = Prove(program, stages);
  EXPECT_NO_THROW(Verify(Ordered(program, order.nodes)));
  return order.torn == kNoTensor ? "" : program.tensor(order.torn).name;
}

TEST(MicroStepOrder, AllRowsGiveValidPrograms) {
  const Program program = Joined();
  for (const MicroStepOrder& row : MicroStepOrders()) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(TornBy(program, row.stages(program)), "");
  }
}

TEST(MicroStepOrder, OneAfterAnotherIsAsAppended) {
  const Program program = Joined();
  const ProvenOrder order = Prove(program, RequireOrder("one after another").stages(program));
  EXPECT_TRUE(std::ranges::is_sorted(order.nodes));
}

TEST(MicroStepOrder, BlocksFirstPutsTheMicroStepsOfABlockTogether) {
  const Program program = Joined();
  const ProvenOrder order = Prove(program, RequireOrder("blocks first").stages(program));
  std::vector<std::string> scopes;
  for (size_t at : order.nodes) {
    const Node& node = program.nodes()[at];
    if (node.phase == Phase::kForward) scopes.push_back(node.scope);
  }
  EXPECT_THAT(scopes, testing::ElementsAre("block.0", "block.0", "block.0", "block.1", "block.1",
                                           "block.1"));
}

// The last micro-step would add to a gradient before the first one has written it.
TEST(MicroStepOrder, RefusesMicroStepsInReverse) {
  const Program program = Joined();
  EXPECT_EQ(
      TornBy(program, StagesOf(program, [](const Node& node) { return 2 - node.micro_step; })),
      "b.grad");
}

// What no block computes may move to where what it follows is.
TEST(MicroStepOrder, LetsOtherNodesWait) {
  const Program program = Joined();
  Stages stages = StagesOf(program, [](const Node& node) { return 2 - node.micro_step; });
  stages.fixed.assign(program.nodes().size(), false);
  EXPECT_EQ(TornBy(program, stages), "");
}

// Nodes of later micro-steps may read temporaries of earlier ones (ShareForward).
TEST(MicroStepOrder, KeepsReadersOfSharedTemporariesBehind) {
  const Program program = Parse(R"(program p
  tensor %x: f32[4] input persistent
forward
  %y: f32[4] = scale(%x) {factor=2.0}
forward 1
  %z: f32[4] = scale(%y) {factor=2.0}
)");
  EXPECT_EQ(
      TornBy(program, StagesOf(program, [](const Node& node) { return 1 - node.micro_step; })),
      "y");
}

TEST(MicroStepOrder, IsFoundByName) {
  EXPECT_EQ(RequireOrder("blocks first").name, "blocks first");
  ExpectInternalError([] { RequireOrder("blocks last"); }, {"'blocks last'"});
}

}  // namespace
}  // namespace plimsoll::graph
