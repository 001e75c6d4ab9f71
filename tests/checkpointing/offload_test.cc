// The pass `offload` under a memory plan in which copies run concurrently with the computation.
// docs/how/checkpointing.md shows the programs that the pass makes.
#include "checkpointing/offload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "checkpointing/recompute.h"
#include "memory/checker.h"
#include "memory/plan.h"
#include "tests/graph/expect_program.h"
#include "tests/ops/interpreter.h"
#include "tests/support/expect_error.h"

namespace plimsoll::checkpointing {
namespace {

using graph::Node;
using graph::Parse;
using graph::Program;

// A chain of `layers` activations. The backward pass reads them in reverse order; all are tagged
// `offload`, and %recomputed starts from the first.
std::string Chain(int layers) {
  std::string forward = "  %a0: f32[64,64] offload = scale(%x) {factor=2.0}\n";
  forward += "  %recomputed: f32[64,64] recompute = gelu(%a0) {approximate=\"tanh\"}\n";
  std::string backward =
      "  %d0: f32[64,64] = mul(%a0, %d1)\n  %dx: f32[64,64] = mul(%recomputed, %d0)\n"
      "  %out = sum(%dx)\n";
  for (int i = 1; i < layers; ++i) {
    const std::string n = std::to_string(i), before = std::to_string(i - 1);
    const std::string input = i == 1 ? "recomputed" : "a" + before;
    forward += "  %a" + n + ": f32[64,64] offload = gelu(%" + input + ") {approximate=\"tanh\"}\n";
    backward = "  %d" + n + ": f32[64,64] = gelu_backward(%a" + n + ", %d" + std::to_string(i + 1) +
               ") {approximate=\"tanh\"}\n" + backward;
  }
  return R"(program p
  tensor %x: f32[64,64] input persistent
  tensor %loss: f32[] metric persistent
  tensor %out: f32[] metric persistent
forward
)" + forward +
         "  %top: f32[64,64] = scale(%a" + std::to_string(layers - 1) + R"() {factor=2.0}
  %top.2: f32[64,64] = scale(%top) {factor=2.0}
  %loss = sum(%top.2)
backward
)" + "  %d" +
         std::to_string(layers) + ": f32[64,64] = scale(%x) {factor=2.0}\n" + backward;
}

// Copies run on a stream of their own: a copy starts when the nodes before it have ended, and only
// its copy_done waits for it; copies run in order among themselves.
bool OrderedWithSideStream(const Program& program, int earlier, int later) {
  const std::vector<Node>& nodes = program.nodes();
  if (nodes[earlier].op->name != "copy_start") return true;
  for (int n = earlier + 1; n <= later; ++n) {
    const bool joins =
        nodes[n].op->name == "copy_done" && nodes[n].inputs[0] == nodes[earlier].outputs[0];
    if (joins) return true;
  }
  return nodes[later].op->name == "copy_start";
}

memory::MemoryPlan CheckedPlan(const Program& program) {
  const std::vector<const Program*> programs = {&program};
  memory::MemoryPlan plan = memory::MakePlan(programs);
  memory::CheckPlan(programs, plan, {.ordered = &OrderedWithSideStream});
  return plan;
}

// A node takes a second, as does a copy.
OffloadOptions Timed() {
  return {.node_seconds = [](const graph::OpCall&) { return 1.0; },
          .copy_seconds = [](int64_t) { return 1.0; }};
}

Program Offloaded(int layers, const OffloadOptions& options = {}) {
  Program program = Parse(Chain(layers));
  Recompute().Run(program);
  EXPECT_TRUE(Offload(options).Run(program).changed);
  graph::Verify(program);
  return program;
}

TEST(Offload, NeedsAsManyBuffersOnTheDeviceHoweverManyTravel) {
  const int64_t one = 64 * 64 * 4;
  const memory::MemoryPlan four = CheckedPlan(Offloaded(4)), twelve = CheckedPlan(Offloaded(12));
  EXPECT_EQ(twelve.max_live_bytes, four.max_live_bytes);
  EXPECT_EQ(four.host_arena_bytes, 4 * one);
  EXPECT_EQ(twelve.host_arena_bytes, 12 * one);

  Program kept = Parse(Chain(12));
  Recompute().Run(kept);
  EXPECT_GE(CheckedPlan(kept).max_live_bytes - twelve.max_live_bytes, 8 * one);
}

// The expectation above relies on the checker: it does find a buffer that is used too early.
TEST(Offload, CopiesThatAreNotWaitedForAreFound) {
  Program program = Offloaded(6);
  // Reads %a3 before its copy is done, without the copy_done.
  for (Node& node : program.mutable_nodes()) {
    for (graph::TensorId& id : node.inputs) {
      if (program.tensor(id).name == "a4.here") id = program.Require("a3.back");
    }
  }
  ExpectInternalError([&] { CheckedPlan(program); }, {"not ordered", "copy_start"});
}

TEST(Offload, EveryCopyIsWaitedForBeforeItsPhaseEnds) {
  const Program program = Offloaded(6);
  int starts = 0, under_way = 0, most = 0;
  graph::Phase phase = graph::Phase::kForward;
  for (const Node& node : program.nodes()) {
    if (phase == graph::Phase::kForward && node.phase != phase) {
      EXPECT_EQ(under_way, 0);
    }
    phase = node.phase;
    starts += node.op->name == "copy_start";
    under_way += node.op->name == "copy_start";
    under_way -= node.op->name == "copy_done";
    most = std::max(most, under_way);
  }
  EXPECT_EQ(starts, 12);
  EXPECT_EQ(under_way, 0);
  EXPECT_EQ(most, 2);
}

// The recomputed chain starts from a tensor that was on the host.
TEST(Offload, KeepsTheBits) {
  ThreadPool pool(2);
  const Program kept = Parse(Chain(5)), travelled = Offloaded(5), timed = Offloaded(5, Timed());
  std::vector<double> x;
  for (int i = 0; i < 64 * 64; ++i) x.push_back(0.001 * (i % 1999) - 1);
  auto result = [&](const Program& program) {
    ops::Interpreter interpreter(program, pool);
    interpreter.Set("x", x);
    interpreter.Run();
    return std::vector<double>{interpreter.Get("out")[0], interpreter.Get("loss")[0]};
  };
  const std::vector<double> expected = result(kept);
  EXPECT_NE(expected[0], expected[1]);
  EXPECT_EQ(result(travelled), expected);
  EXPECT_EQ(result(timed), expected);
}

TEST(Offload, ViewsAreMadeOfWhatCameBack) {
  Program program = Parse(R"(program p
  tensor %x: f32[8,4] input persistent
forward
  %a: f32[8,4] offload = scale(%x) {factor=2.0}
  %flat: f32[32] view %a+0 = view(%a) {d0=32, rank=1}
  %b: f32[32] = scale(%flat) {factor=2.0}
  %c: f32[32] = scale(%b) {factor=2.0}
backward
  %d: f32[32] = scale(%flat) {factor=2.0}
)");
  const graph::PassResult result = Offload().Run(program);
  EXPECT_EQ(result.summary, "1 tensor waits on the host, activations 128 B → 0 B");
  graph::ExpectProgram(program, R"(program p
  tensor %x: f32[8,4] input persistent
forward
  %a: f32[8,4] offload = scale(%x) {factor=2.0}
  %flat: f32[32] view %a+0 = view(%a) {d0=32, rank=1}
  %b: f32[32] = scale(%flat) {factor=2.0}
  %a.host: f32[8,4] host = copy_start(%a) !offload
  %c: f32[32] = scale(%b) {factor=2.0}
  %a.away: f32[8,4] host view %a.host+0 = copy_done(%a.host, %a) !offload
backward
  %a.back: f32[8,4] = copy_start(%a.away) !offload
  %a.here: f32[8,4] view %a.back+0 = copy_done(%a.back, %a.away) !offload
  %flat.here: f32[32] view %a.here+0 = view(%a.here) {d0=32, rank=1} !offload
  %d: f32[32] = scale(%flat.here) {factor=2.0}
)");
}

// A copy of a second is given one and a half.
TEST(Offload, CopiesEndAndStartInTimeWhereItIsKnown) {
  graph::ExpectPass(Offload(Timed()), R"(program p
  tensor %x: f32[8,4] input persistent
forward
  %a: f32[8,4] offload = scale(%x) {factor=2.0}
  %b: f32[8,4] = scale(%a) {factor=2.0}
  %c: f32[8,4] = scale(%b) {factor=2.0}
  %d: f32[8,4] = scale(%c) {factor=2.0}
  %e: f32[8,4] = scale(%d) {factor=2.0}
backward
  %f: f32[8,4] = scale(%e) {factor=2.0}
  %g: f32[8,4] = scale(%f) {factor=2.0}
  %h: f32[8,4] = scale(%g) {factor=2.0}
  %i: f32[8,4] = add(%a, %h)
)",
                    R"(program p
  tensor %x: f32[8,4] input persistent
forward
  %a: f32[8,4] offload = scale(%x) {factor=2.0}
  %b: f32[8,4] = scale(%a) {factor=2.0}
  %a.host: f32[8,4] host = copy_start(%a) !offload
  %c: f32[8,4] = scale(%b) {factor=2.0}
  %d: f32[8,4] = scale(%c) {factor=2.0}
  %a.away: f32[8,4] host view %a.host+0 = copy_done(%a.host, %a) !offload
  %e: f32[8,4] = scale(%d) {factor=2.0}
backward
  %f: f32[8,4] = scale(%e) {factor=2.0}
  %a.back: f32[8,4] = copy_start(%a.away) !offload
  %g: f32[8,4] = scale(%f) {factor=2.0}
  %h: f32[8,4] = scale(%g) {factor=2.0}
  %a.here: f32[8,4] view %a.back+0 = copy_done(%a.back, %a.away) !offload
  %i: f32[8,4] = add(%a.here, %h)
)");
}

// What one block offloads does not wait for itself: %a has not arrived when %c leaves.
TEST(Offload, TensorsOfOneBlockLeaveTogether) {
  const std::string text = R"(program p
  tensor %x: f32[8,4] input persistent
forward
  %a: f32[8,4] offload = scale(%x) {factor=2.0} @block.0
  %b: f32[8,4] offload = scale(%a) {factor=2.0} @block.0
  %c: f32[8,4] offload = scale(%b) {factor=2.0} @block.0
  %d: f32[8,4] = scale(%c) {factor=2.0} @block.0
  %e: f32[8,4] = scale(%d) {factor=2.0} @block.1
  %f: f32[8,4] = scale(%e) {factor=2.0} @block.1
backward
  %g: f32[8,4] = scale(%f) {factor=2.0} @block.1
  %h: f32[8,4] = add(%c, %g) @block.0
  %i: f32[8,4] = add(%b, %h) @block.0
  %j: f32[8,4] = add(%a, %i) @block.0
)";
  const auto done_before = [&](OffloadOptions options) {
    if (options.copy_seconds) options.copy_seconds = [](int64_t) { return 4.0; };
    Program program = Parse(text);
    EXPECT_TRUE(Offload(options).Run(program).changed);
    CheckedPlan(program);
    int done = 0;
    for (const Node& node : program.nodes()) {
      if (node.op->name == "copy_start" && program.tensor(node.outputs[0]).name == "c.host") break;
      done += node.op->name == "copy_done";
    }
    return done;
  };
  EXPECT_EQ(done_before({}), 1);
  EXPECT_EQ(done_before(Timed()), 0);
}

TEST(Offload, WithoutTagsChangesNothing) {
  Program program = Parse(R"(program p
  tensor %x: f32[8,4] input persistent
forward
  %a: f32[8,4] = scale(%x) {factor=2.0}
)");
  EXPECT_FALSE(Offload().Run(program).changed);
}

}  // namespace
}  // namespace plimsoll::checkpointing
