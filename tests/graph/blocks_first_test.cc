// Golden tests of programs whose micro-steps go block by block, and of gradients that become
// temporaries there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/micro_steps.h"
#include "graph/step_passes.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::graph {
namespace {

using testing::HasSubstr;

// Two layers, each a block, and their gradients.
constexpr char kTensors[] = R"(
  tensor %x: f32[8,4] input persistent
  tensor %a: f32[4,4] parameter persistent
  tensor %b: f32[4,4] parameter persistent
  tensor %a.grad: f32[4,4] gradient persistent of %a as gradient
  tensor %b.grad: f32[4,4] gradient persistent of %b as gradient
  tensor %lr: f32[] input persistent
)";

constexpr char kForward[] = R"(forward
  %e: f32[8,4] = scale(%x) {factor=2.0}
  %h: f32[8,4] = linear(%e, %a) @block.0
  %y: f32[8,4] = linear(%h, %b) @block.1
)";

constexpr char kSgd[] = "{momentum=0.0, nesterov=false, weight_decay=0.0}";

Program First(const std::string& backward) {
  return Parse("program train_first" + std::string(kTensors) + kForward + backward);
}

Program Joined(const std::string& first, const std::string& last) {
  Program program = First(first);
  const Program next = First(last);
  AppendMicroSteps({&next}, [](const Tensor& tensor) { return tensor.name == "x"; }).Run(program);
  return program;
}

constexpr char kWrites[] = R"(backward
  %dy: f32[8,4] = scale(%y) {factor=0.5}
  %b.grad, _ = linear_dw(%h, %dy, _, _) {bias=false} @block.1
  %dh: f32[8,4] = linear_dx(%dy, %b) @block.1
  %a.grad, _ = linear_dw(%e, %dh, _, _) {bias=false} @block.0
)";

// Has a node more, and recomputes one.
std::string Adds() {
  return R"(backward
  %dy: f32[8,4] = scale(%y) {factor=0.5}
recompute
  %h.again: f32[8,4] = linear(%e, %a) @block.1
backward
  %b.grad, _ = linear_dw(%h.again, %dy, %b.grad, _) {bias=false} @block.1
  %dh: f32[8,4] = linear_dx(%dy, %b) @block.1
  %dh.same: f32[8,4] = scale(%dh) {factor=1.0} @block.0
  %a.grad, _ = linear_dw(%e, %dh.same, %a.grad, _) {bias=false} @block.0
update
  %a, _, _, _ = sgd(%a, %a.grad, _, %lr) )" +
         std::string(kSgd) + R"( @a
  %b, _, _, _ = sgd(%b, %b.grad, _, %lr) )" +
         kSgd + R"( @b
)";
}

TEST(BlocksFirst, OrdersByBlockAndThenByMicroStep) {
  Program program = Joined(kWrites, Adds());
  const PassResult result = BlocksFirst().Run(program);
  EXPECT_TRUE(result.changed);
  EXPECT_EQ(result.summary, "2 micro-steps go block by block");
  ExpectProgram(program, "program train_first" + std::string(kTensors) + R"(
  tensor %micro_step.1.x: f32[8,4] input persistent
forward
  %e: f32[8,4] = scale(%x) {factor=2.0}
forward 1
  %micro_step.1.e: f32[8,4] = scale(%micro_step.1.x) {factor=2.0}
forward
  %h: f32[8,4] = linear(%e, %a) @block.0
forward 1
  %micro_step.1.h: f32[8,4] = linear(%micro_step.1.e, %a) @block.0
forward
  %y: f32[8,4] = linear(%h, %b) @block.1
forward 1
  %micro_step.1.y: f32[8,4] = linear(%micro_step.1.h, %b) @block.1
backward
  %dy: f32[8,4] = scale(%y) {factor=0.5}
backward 1
  %micro_step.1.dy: f32[8,4] = scale(%micro_step.1.y) {factor=0.5}
backward
  %b.grad, _ = linear_dw(%h, %dy, _, _) {bias=false} @block.1
  %dh: f32[8,4] = linear_dx(%dy, %b) @block.1
recompute 1
  %micro_step.1.h.again: f32[8,4] = linear(%micro_step.1.e, %a) @block.1
backward 1
  %b.grad, _ = linear_dw(%micro_step.1.h.again, %micro_step.1.dy, %b.grad, _) {bias=false} @block.1
  %micro_step.1.dh: f32[8,4] = linear_dx(%micro_step.1.dy, %b) @block.1
backward
  %a.grad, _ = linear_dw(%e, %dh, _, _) {bias=false} @block.0
backward 1
  %micro_step.1.dh.same: f32[8,4] = scale(%micro_step.1.dh) {factor=1.0} @block.0
  %a.grad, _ = linear_dw(%micro_step.1.e, %micro_step.1.dh.same, %a.grad, _) {bias=false} @block.0
update 1
  %a, _, _, _ = sgd(%a, %a.grad, _, %lr) )" +
                             kSgd + R"( @a
  %b, _, _, _ = sgd(%b, %b.grad, _, %lr) )" +
                             kSgd + R"( @b
)");
  EXPECT_FALSE(BlocksFirst().Run(program).changed) << "twice is once";
}

// Blocks 0 and 1 are recomputed together: tearing them apart would let what is computed again of
// all micro-steps wait for one another.
TEST(BlocksFirst, KeepsBlocksThatOverlapTogether) {
  const std::string backward = R"(recompute
  %h.again: f32[8,4] = linear(%e, %a) @block.0
  %y.again: f32[8,4] = linear(%h.again, %b) @block.1
backward
  %dh: f32[8,4] = linear_dx(%y.again, %b) @block.1
  %de: f32[8,4] = linear_dx(%dh, %a) @block.0
)";
  Program program = Joined(backward, backward);
  EXPECT_TRUE(BlocksFirst().Run(program).changed);
  std::string order;
  for (const Node& node : program.nodes()) {
    if (node.phase != Phase::kForward) order += std::to_string(node.micro_step);
  }
  EXPECT_EQ(order, "00001111");
}

// A transfer goes with the nodes around it, whatever block it is named after.
TEST(BlocksFirst, TakesTransfersAlong) {
  const std::string backward = R"(backward
  %dh: f32[8,4] = linear_dx(%y, %b) @block.1
  %away: f32[8,4] host = copy_start(%e) @block.0
  %dh2: f32[8,4] = scale(%dh) {factor=2.0} @block.1
  %there: f32[8,4] host view %away+0 = copy_done(%away, %e) @block.1
  %de: f32[8,4] = linear_dx(%dh2, %a) @block.0
)";
  Program program = Joined(backward, backward);
  EXPECT_TRUE(BlocksFirst().Run(program).changed);
  std::vector<std::string> order;
  for (const Node& node : program.nodes()) {
    if (node.phase == Phase::kForward) continue;
    order.push_back(node.op->name + std::to_string(node.micro_step));
  }
  EXPECT_THAT(order, testing::ElementsAre("linear_dx0", "copy_start0", "scale0", "linear_dx1",
                                          "copy_start1", "scale1", "copy_done0", "linear_dx0",
                                          "copy_done1", "linear_dx1"));
}

// A view of a carried tensor does nothing, wherever it stands: neither does it make the first block
// longer, nor wait for what others do with the tensor.
TEST(BlocksFirst, TakesViewsAlong) {
  const auto program_of = [](const char* name) {
    return Parse("program " + std::string(name) + kTensors + R"(forward
  %part: f32[16] parameter view %b+0 = view(%b) {d0=16, rank=1} @block.1
  %h: f32[8,4] = linear(%x, %a) @block.0
  %y: f32[8,4] = linear(%h, %b) @block.1
  %z: f32[16] = scale(%part) {factor=2.0} @block.1
)");
  };
  Program program = program_of("first");
  const Program next = program_of("next");
  AppendMicroSteps({&next}, [](const Tensor& tensor) { return tensor.name == "x"; }).Run(program);
  EXPECT_TRUE(BlocksFirst().Run(program).changed);
  std::vector<std::string> order;
  for (const Node& node : program.nodes()) {
    order.push_back(node.op->name + std::to_string(node.micro_step));
  }
  EXPECT_THAT(order, testing::ElementsAre("view0", "linear0", "view1", "linear1", "linear0",
                                          "scale0", "linear1", "scale1"));
}

// One gradient that both blocks add to: the second micro-step's first part must come behind the
// first one's last, however blocks are ordered.
TEST(BlocksFirst, LeavesTiedWeightsAsTheyAre) {
  const auto backward = [](const std::string& first) {
    return R"(backward
  %dy: f32[8,4] = scale(%y) {factor=0.5}
  %a.grad, _ = linear_dw(%h, %dy, )" +
           first + R"(, _) {bias=false} @block.1
  %dh: f32[8,4] = linear_dx(%dy, %a) @block.1
  %a.grad, _ = linear_dw(%e, %dh, %a.grad, _) {bias=false} @block.0
)";
  };
  Program program = Joined(backward("_"), backward("%a.grad"));
  const std::string before = ToText(program);
  const PassResult result = BlocksFirst().Run(program);
  EXPECT_FALSE(result.changed);
  EXPECT_THAT(result.summary, HasSubstr("each micro-step changes 'a.grad' in several places"));
  EXPECT_EQ(ToText(program), before);
}

TEST(BlocksFirst, LeavesOneMicroStepAlone) {
  Program program = First(kWrites);
  EXPECT_FALSE(BlocksFirst().Run(program).changed);
}

TEST(TemporaryGradients, EachSumIsATensorOfItsOwn) {
  Program program = Joined(kWrites, Adds());
  BlocksFirst().Run(program);
  const PassResult result = TemporaryGradients().Run(program);
  EXPECT_TRUE(result.changed);
  EXPECT_EQ(result.summary, "2 gradients are temporaries now");
  EXPECT_NO_THROW(Verify(program));
  const std::string text = ToText(program);
  for (const char* line :
       {"%b.grad.sum: f32[4,4] gradient, _ = linear_dw(%h, %dy, _, _)",
        "%b.grad: f32[4,4] gradient of %b as gradient, _ = linear_dw(%micro_step.1.h.again, %micro_step.1.dy, "
        "%b.grad.sum, _)",
        "sgd(%b, %b.grad, _, %lr)"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_FALSE(TemporaryGradients().Run(program).changed);
}

// Those on the host wait there for the update at the end.
TEST(TemporaryGradients, OnTheHostStayCarriedUntilTheEnd) {
  Program program = Joined(kWrites, Adds());
  program.mutable_tensor(program.Require("b.grad")).place = Place::kHost;
  EXPECT_EQ(TemporaryGradients().Run(program).summary, "1 gradient is a temporary now");
  const Tensor& gradient = program.tensor(program.Require("b.grad"));
  EXPECT_TRUE(gradient.persistent);
  EXPECT_EQ(gradient.place, Place::kHost);
  EXPECT_FALSE(program.tensor(program.Require("a.grad")).persistent);
}

// Within the backward pass an update takes its gradient at once, on the device.
TEST(TemporaryGradients, ThatUpdatesTakeSoonerAreOnTheDevice) {
  Program program = Joined(kWrites, Adds());
  program.mutable_tensor(program.Require("b.grad")).place = Place::kHost;
  // The last node of the program is no update.
  Node last = program.nodes().front();
  Tensor result = program.tensor(last.outputs[0]);
  result.name = "last";
  last.outputs = {program.AddTensor(std::move(result))};
  program.mutable_nodes().push_back(std::move(last));
  EXPECT_EQ(TemporaryGradients().Run(program).summary, "2 gradients are temporaries now");
  for (const Tensor& tensor : program.tensors()) {
    EXPECT_EQ(tensor.place, Place::kDevice) << tensor.name;
  }
}

// Another program has written it before, or a part of it is taken before it is complete.
TEST(TemporaryGradients, StayCarriedWhereOthersNeedThem) {
  Program added = First(Adds());
  EXPECT_FALSE(TemporaryGradients().Run(added).changed);
  Program seen =
      Joined(std::string(kWrites) +
                 R"(  %flat: f32[16] gradient view %b.grad+0 = view(%b.grad) {d0=16, rank=1}
  %twice: f32[16] = scale(%flat) {factor=2.0}
)",
             Adds());
  EXPECT_EQ(TemporaryGradients().Run(seen).summary, "1 gradient is a temporary now");
  EXPECT_TRUE(seen.tensor(seen.Require("b.grad")).persistent);
  EXPECT_FALSE(seen.tensor(seen.Require("a.grad")).persistent);
}

}  // namespace
}  // namespace plimsoll::graph
