// Whether an update is applied, for various norms, losses and limits.
#include "ops/optimizer/update_gate.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/graph/expect_program.h"
#include "tests/ops/interpreter.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::Builder;
using graph::DType;
using graph::Program;
using graph::Role;
using graph::Value;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Program Gate() {
  Program program("gate");
  Builder g(program);
  g.set_phase(graph::Phase::kUpdate);
  const graph::TensorType real{DType::kFloat32, {}};
  const Value norm = g.Persistent("norm", Role::kInput, real);
  const Value loss = g.Persistent("loss", Role::kInput, real);
  const Value limit = g.Persistent("limit", Role::kInput, real);
  EmitUpdateGate(g, norm, {loss, limit},
                 g.Persistent("skipped", Role::kState, {DType::kInt32, {2}}));
  return program;
}

TEST(UpdateGate, Program) {
  graph::ExpectProgram(Gate(), R"(program gate
  tensor %norm: f32[] input persistent
  tensor %loss: f32[] input persistent
  tensor %limit: f32[] input persistent
  tensor %skipped: i32[2] state persistent
update
  %update_gate: i32[], %skipped = update_gate(%norm, %loss, %limit, %skipped)
)");
}

TEST(UpdateGate, CountsWhatItSkipsInAllAndInARow) {
  struct Step {
    double norm, loss, limit;
    bool apply;
    std::vector<double> skipped;
  };
  const std::vector<Step> steps = {{1, 2, kInfinity, true, {0, 0}},           // no limit
                                   {1, 2, 2, true, {0, 0}},                   // at the limit
                                   {1, 2.0000002, 2, false, {1, 1}},          // beyond
                                   {kInfinity, 2, 3, false, {2, 2}},          //
                                   {kNan, 2, kInfinity, false, {3, 3}},       //
                                   {0, -5, -4, true, {3, 0}},                 //
                                   {1, kNan, kInfinity, false, {4, 1}},       // for any limit
                                   {1, kInfinity, kInfinity, false, {5, 2}},  //
                                   {1, -kInfinity, 3, false, {6, 3}},         //
                                   {1, 1, kNan, false, {7, 4}},               //
                                   {1, 1, 1, true, {7, 0}}};
  const Program program = Gate();
  ThreadPool pool(1);
  Interpreter interpreter(program, pool);
  interpreter.Set("skipped", std::vector<double>{0, 0});
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    SCOPED_TRACE(i);
    interpreter.Set("norm", std::vector<double>{step.norm});
    interpreter.Set("loss", std::vector<double>{step.loss});
    interpreter.Set("limit", std::vector<double>{step.limit});
    interpreter.Run();
    EXPECT_EQ(interpreter.Get("update_gate")[0], step.apply ? 1 : 0);
    EXPECT_EQ(interpreter.Get("skipped"), step.skipped);
  }
}

TEST(UpdateGate, RefusesCountersThatAreNoState) {
  ExpectInternalError(
      [] {
        Program program = graph::Parse(R"(program p
  tensor %x: f32[4] input persistent
  tensor %n: i32[] input persistent
forward
  %norm: f32[] = sum(%x)
)");
        Builder g(program);
        const Value norm = program.Require("norm");
        EmitUpdateGate(g, norm, {norm, norm}, norm);
      },
      {"update_gate", "'norm'", "not persistent"});
}

}  // namespace
}  // namespace plimsoll::ops
