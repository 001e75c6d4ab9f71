// Parameters in host memory: golden programs, and the same bits as on the device.
#include "optim/host_parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "graph/simplify.h"
#include "memory/checker.h"
#include "memory/plan.h"
#include "optim/host_stays.h"
#include "optim/spare_bytes.h"
#include "optim/update.h"
#include "runtime/arena.h"
#include "runtime/cpu_executor.h"
#include "runtime/workspaces.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::optim {
namespace {

using graph::DType;
using graph::ExpectProgram;
using graph::Parse;
using graph::Place;
using graph::Program;
using graph::Role;

const HostParametersOptions kState = {.state = true};

bool MoveToHost(Program& program, const HostParametersOptions& options) {
  const bool placed = PlaceOnHost(options).Run(program).changed;
  const bool moved = HostParameters(options).Run(program).changed;
  EXPECT_EQ(moved, placed);
  graph::Verify(program);
  return moved;
}

Program OnHost(std::string_view text, const UpdateOptions& options) {
  Program program = Parse(text);
  Update(options).Run(program);
  EXPECT_TRUE(MoveToHost(program, kState));
  return program;
}

// The average follows its parameter's update, from the remainder that this has just made.
TEST(HostParameters, AveragesBesideTheUpdate) {
  const Program program = OnHost(R"(program p
  tensor %a: bf16[8,4] parameter persistent
  tensor %a.grad: f32[8,4] gradient persistent
)",
                                 {.algorithm = UpdateOptions::Algorithm::kSgd,
                                  .momentum = 0,
                                  .weight_decay = 0.25,
                                  .clip_grad_norm = 0,
                                  .average = ops::WeightAverageOptions{.decay = 0.75}});
  ExpectProgram(program, R"(program p
  tensor %a: bf16[8,4] parameter persistent
  tensor %a.grad: f32[8,4] gradient persistent
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
  tensor %a.remainder: i16[8,4] master persistent host
  tensor %ema_count: i32[] optimizer_state persistent
  tensor %a.ema: f32[8,4] optimizer_state persistent host
  tensor %a.remainder.stored: i16[8,4] master persistent host view %a.remainder+0
  tensor %a.ema.stored: f32[8,4] optimizer_state persistent host view %a.ema+0
update
  %a.remainder.staged: i16[8,4] master = copy_start(%a.remainder) @a !host_parameters
  %a.ema.staged: f32[8,4] optimizer_state = copy_start(%a.ema) @a !host_parameters
  %grad_norm = global_norm(%a.grad) !update
  %update_count = increment(%update_count) !update
  %a.remainder.loaded: i16[8,4] master view %a.remainder.staged+0 = copy_done(%a.remainder.staged, %a.remainder) @a !host_parameters
  %a.ema.loaded: f32[8,4] optimizer_state view %a.ema.staged+0 = copy_done(%a.ema.staged, %a.ema) @a !host_parameters
  %a, _, %a.remainder.updated: i16[8,4] master, _ = sgd(%a, %a.grad, _, %lr, _, _, %a.remainder.loaded) {momentum=0.0, nesterov=false, weight_decay=0.25} @a !update
  %ema_count = increment(%ema_count) !update
  %a.ema.updated: f32[8,4] optimizer_state = weight_average(%a.ema.loaded, %a, %ema_count, %a.remainder.updated) {decay=0.75, warmup=false} @a !update
  %a.remainder = copy_start(%a.remainder.updated) @a !host_parameters
  %a.ema = copy_start(%a.ema.updated) @a !host_parameters
  %a.remainder.stored = copy_done(%a.remainder, %a.remainder.updated) @a !host_parameters
  %a.ema.stored = copy_done(%a.ema, %a.ema.updated) @a !host_parameters
)");
}

// Two matrices in bf16, without momentum: their only state is the remainders.
TEST(HostParameters, PrefetchesOneParameterAhead) {
  const Program program = OnHost(R"(program p
  tensor %a: bf16[8,4] parameter persistent
  tensor %b: bf16[4,4] parameter persistent
  tensor %a.grad: f32[8,4] gradient persistent
  tensor %b.grad: f32[4,4] gradient persistent
)",
                                 {.algorithm = UpdateOptions::Algorithm::kSgd,
                                  .momentum = 0,
                                  .weight_decay = 0.25,
                                  .clip_grad_norm = 0});
  ExpectProgram(program, R"(program p
  tensor %a: bf16[8,4] parameter persistent
  tensor %b: bf16[4,4] parameter persistent
  tensor %a.grad: f32[8,4] gradient persistent
  tensor %b.grad: f32[4,4] gradient persistent
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
  tensor %a.remainder: i16[8,4] master persistent host
  tensor %b.remainder: i16[4,4] master persistent host
  tensor %a.remainder.stored: i16[8,4] master persistent host view %a.remainder+0
  tensor %b.remainder.stored: i16[4,4] master persistent host view %b.remainder+0
update
  %a.remainder.staged: i16[8,4] master = copy_start(%a.remainder) @a !host_parameters
  %grad_norm = global_norm(%a.grad, %b.grad) !update
  %update_count = increment(%update_count) !update
  %b.remainder.staged: i16[4,4] master = copy_start(%b.remainder) @b !host_parameters
  %a.remainder.loaded: i16[8,4] master view %a.remainder.staged+0 = copy_done(%a.remainder.staged, %a.remainder) @a !host_parameters
  %a, _, %a.remainder.updated: i16[8,4] master, _ = sgd(%a, %a.grad, _, %lr, _, _, %a.remainder.loaded) {momentum=0.0, nesterov=false, weight_decay=0.25} @a !update
  %a.remainder = copy_start(%a.remainder.updated) @a !host_parameters
  %a.remainder.stored = copy_done(%a.remainder, %a.remainder.updated) @a !host_parameters
  %b.remainder.loaded: i16[4,4] master view %b.remainder.staged+0 = copy_done(%b.remainder.staged, %b.remainder) @b !host_parameters
  %b, _, %b.remainder.updated: i16[4,4] master, _ = sgd(%b, %b.grad, _, %lr, _, _, %b.remainder.loaded) {momentum=0.0, nesterov=false, weight_decay=0.25} @b !update
  %b.remainder = copy_start(%b.remainder.updated) @b !host_parameters
  %b.remainder.stored = copy_done(%b.remainder, %b.remainder.updated) @b !host_parameters
)");
  // Simplify removes none of it as useless.
  Program simplified = program;
  EXPECT_FALSE(graph::Simplify().Run(simplified).changed);
}

constexpr char kSgd[] = "{momentum=0.0, nesterov=false, weight_decay=0.0}";

// Two blocks. The last one's weight stays for what is computed again, for the backward pass and for
// its update; the other one is loaded twice, since the forward pass of block 1 comes in between.
TEST(HostParameters, WeightsStayForABlock) {
  constexpr char kTensors[] = R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,4] input persistent
  tensor %lr: f32[] input persistent
)";
  Program program = Parse(std::string(kTensors) + R"(  tensor %a: f32[4,4] parameter persistent
  tensor %b: f32[4,4] parameter persistent
forward
  %y: f32[8,4] = linear(%x, %a) @block.0
  %z: f32[8,4] = linear(%y, %b) @block.1
recompute
  %again: f32[8,4] = linear(%y, %b) @block.1
backward
  %dz: f32[8,4] = linear_dx(%again, %b) @block.1
  %b.grad: f32[4,4] gradient, _ = linear_dw(%y, %dz, _, _) {bias=false} @block.1
update
  %b, _, _, _ = sgd(%b, %b.grad, _, %lr) )" +
                          kSgd + R"( @block.1.b
backward
  %dx: f32[8,4] = linear_dx(%dz, %a) @block.0
)");
  EXPECT_TRUE(MoveToHost(program, {.weights = true, .least_bytes = 0, .ahead_bytes = 0}));
  ExpectProgram(program, R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,4] input persistent
  tensor %lr: f32[] input persistent
  tensor %a: f32[4,4] parameter persistent host
  tensor %b: f32[4,4] parameter persistent host
  tensor %b.stored: f32[4,4] parameter persistent host view %b+0
forward
  %a.staged: f32[4,4] parameter = copy_start(%a) @block.0 !host_parameters
  %b.staged: f32[4,4] parameter = copy_start(%b) @block.1 !host_parameters
  %a.loaded: f32[4,4] parameter view %a.staged+0 = copy_done(%a.staged, %a) @block.0 !host_parameters
  %y: f32[8,4] = linear(%x, %a.loaded) @block.0
  %b.loaded: f32[4,4] parameter view %b.staged+0 = copy_done(%b.staged, %b) @block.1 !host_parameters
  %z: f32[8,4] = linear(%y, %b.loaded) @block.1
recompute
  %a.staged.2: f32[4,4] parameter = copy_start(%a) @block.0 !host_parameters
  %again: f32[8,4] = linear(%y, %b.loaded) @block.1
backward
  %dz: f32[8,4] = linear_dx(%again, %b.loaded) @block.1
  %b.grad: f32[4,4] gradient, _ = linear_dw(%y, %dz, _, _) {bias=false} @block.1
update
  %b.updated: f32[4,4] parameter, _, _, _ = sgd(%b.loaded, %b.grad, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @block.1.b
  %b = copy_start(%b.updated) @block.1 !host_parameters
  %b.stored = copy_done(%b, %b.updated) @block.1 !host_parameters
backward
  %a.loaded.2: f32[4,4] parameter view %a.staged.2+0 = copy_done(%a.staged.2, %a) @block.0 !host_parameters
  %dx: f32[8,4] = linear_dx(%dz, %a.loaded.2) @block.0
)");
}

// How many bytes are loaded ahead follows from what blocks need. The head's update stands within
// the backward pass of a block, since its gradient is summed by then, and is large.
TEST(HostParameters, BlocksNeedWhatIsTheirs) {
  const Program program = Parse(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,4] input persistent
  tensor %lr: f32[] input persistent
  tensor %block.0.w: f32[4,4] parameter persistent host
  tensor %head: f32[64,4] parameter persistent host
  tensor %head.grad: f32[64,4] gradient persistent
backward
  %dz: f32[8,4] = linear_dx(%dy, %block.0.w) @block.0
update
  %head, _, _, _ = sgd(%head, %head.grad, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @head
backward
  %dx: f32[8,4] metric = linear_dx(%dz, %block.0.w) @block.0
)");
  std::vector<bool> on_host;
  for (const graph::Tensor& tensor : program.tensors()) {
    on_host.push_back(tensor.place == Place::kHost);
  }
  const std::vector<StayGroup> groups = FindStays(program, on_host);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].bytes, 64);
  EXPECT_TRUE(groups[0].in_block);
  EXPECT_EQ(groups[1].bytes, 1024);
  EXPECT_FALSE(groups[1].in_block);
}

// Each micro-step adds to a carried gradient, and the last one has the update: the norm is summed
// up where gradients are, and they are not stored for an update that is done.
TEST(HostParameters, CarriedGradientsComeAndGo) {
  constexpr char kTensors[] = R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,4] input persistent
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %a: f32[4,4] parameter persistent
  tensor %b: f32[4,4] parameter persistent
)";
  Program first = Parse(std::string(kTensors) + R"(  tensor %a.grad: f32[4,4] gradient persistent
backward
  %a.grad, _ = linear_dw(%x, %dy, _, _) {bias=false} @block.0
)");
  EXPECT_TRUE(MoveToHost(first, {.gradients = true, .least_bytes = 0}));
  ExpectProgram(first, R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,4] input persistent
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %a: f32[4,4] parameter persistent
  tensor %b: f32[4,4] parameter persistent
  tensor %a.grad: f32[4,4] gradient persistent host
  tensor %a.grad.stored: f32[4,4] gradient persistent host view %a.grad+0
backward
  %a.grad.updated: f32[4,4] gradient, _ = linear_dw(%x, %dy, _, _) {bias=false} @block.0
  %a.grad = copy_start(%a.grad.updated) @block.0 !host_parameters
  %a.grad.stored = copy_done(%a.grad, %a.grad.updated) @block.0 !host_parameters
)");
  Program last = Parse(std::string(kTensors) + R"(  tensor %a.grad: f32[4,4] gradient persistent
  tensor %b.grad: f32[4,4] gradient persistent
backward
  %b.grad, _ = linear_dw(%x, %dy, %b.grad, _) {bias=false} @block.1
  %a.grad, _ = linear_dw(%x, %dy, %a.grad, _) {bias=false} @block.0
update
  %grad_norm = global_norm(%a.grad, %b.grad)
  %a, _, _, _ = sgd(%a, %a.grad, _, %lr) )" +
                       kSgd + R"( @a
  %b, _, _, _ = sgd(%b, %b.grad, _, %lr) )" +
                       kSgd + R"( @b
)");
  EXPECT_TRUE(MoveToHost(last, {.gradients = true, .least_bytes = 0}));
  ExpectProgram(last, R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,4] input persistent
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %a: f32[4,4] parameter persistent
  tensor %b: f32[4,4] parameter persistent
  tensor %a.grad: f32[4,4] gradient persistent host
  tensor %b.grad: f32[4,4] gradient persistent host
  tensor %b.grad.stored: f32[4,4] gradient persistent host view %b.grad+0
backward
  %b.grad.staged: f32[4,4] gradient = copy_start(%b.grad) @block.1 !host_parameters
  %a.grad.staged: f32[4,4] gradient = copy_start(%a.grad) @block.0 !host_parameters
  %b.grad.loaded: f32[4,4] gradient view %b.grad.staged+0 = copy_done(%b.grad.staged, %b.grad) @block.1 !host_parameters
  %b.grad.updated: f32[4,4] gradient, _ = linear_dw(%x, %dy, %b.grad.loaded, _) {bias=false} @block.1
  %b.grad.squares: f64[] = square_sum(%b.grad.updated) @block.1 !host_parameters
  %b.grad = copy_start(%b.grad.updated) @block.1 !host_parameters
  %a.grad.loaded: f32[4,4] gradient view %a.grad.staged+0 = copy_done(%a.grad.staged, %a.grad) @block.0 !host_parameters
  %a.grad.updated: f32[4,4] gradient, _ = linear_dw(%x, %dy, %a.grad.loaded, _) {bias=false} @block.0
  %a.grad.squares: f64[] = square_sum(%a.grad.updated) @block.0 !host_parameters
update
  %grad_norm = root_of_sums(%a.grad.squares, %b.grad.squares) !host_parameters
  %a, _, _, _ = sgd(%a, %a.grad.updated, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @a
backward
  %b.grad.stored = copy_done(%b.grad, %b.grad.updated) @block.1 !host_parameters
update
  %b.grad.staged.2: f32[4,4] gradient = copy_start(%b.grad) @b !host_parameters
  %b.grad.loaded.2: f32[4,4] gradient view %b.grad.staged.2+0 = copy_done(%b.grad.staged.2, %b.grad) @b !host_parameters
  %b, _, _, _ = sgd(%b, %b.grad.loaded.2, _, %lr) {momentum=0.0, nesterov=false, weight_decay=0.0} @b
)");
}

// What belongs to block 1, its weight, gradient and state, and nothing else.
TEST(HostParameters, OfSomeBlocks) {
  Program program = Parse(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,4] input persistent
  tensor %embed.w: f32[4,4] parameter persistent
  tensor %block.0.w: f32[4,4] parameter persistent
  tensor %block.1.w: f32[4,4] parameter persistent
  tensor %block.10.w: f32[4,4] parameter persistent
  tensor %block.1.w.grad: f32[4,4] gradient persistent
  tensor %block.10.w.grad: f32[4,4] gradient persistent
forward
  %x0: f32[8,4] = linear(%x, %embed.w, _)
  %x1: f32[8,4] = linear(%x0, %block.0.w, _) @block.0
  %x2: f32[8,4] = linear(%x1, %block.1.w, _) @block.1
  %x3: f32[8,4] metric = linear(%x2, %block.10.w, _) @block.10
backward
  %block.10.w.grad, _ = linear_dw(%x, %dy, %block.10.w.grad, _) {bias=false} @block.10
  %block.1.w.grad, _ = linear_dw(%x, %dy, %block.1.w.grad, _) {bias=false} @block.1
)");
  Update({.algorithm = UpdateOptions::Algorithm::kSgd, .clip_grad_norm = 0}).Run(program);
  EXPECT_TRUE(MoveToHost(program, {.weights = true,
                                   .gradients = true,
                                   .state = true,
                                   .blocks = {"block.1"},
                                   .least_bytes = 0}));
  ExpectProgram(program, R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,4] input persistent
  tensor %embed.w: f32[4,4] parameter persistent
  tensor %block.0.w: f32[4,4] parameter persistent
  tensor %block.1.w: f32[4,4] parameter persistent host
  tensor %block.10.w: f32[4,4] parameter persistent
  tensor %block.1.w.grad: f32[4,4] gradient persistent host
  tensor %block.10.w.grad: f32[4,4] gradient persistent
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
  tensor %block.1.w.momentum: f32[4,4] optimizer_state persistent host
  tensor %block.10.w.momentum: f32[4,4] optimizer_state persistent
  tensor %block.1.w.stored: f32[4,4] parameter persistent host view %block.1.w+0
  tensor %block.1.w.momentum.stored: f32[4,4] optimizer_state persistent host view %block.1.w.momentum+0
forward
  %x0: f32[8,4] = linear(%x, %embed.w, _)
  %block.1.w.staged: f32[4,4] parameter = copy_start(%block.1.w) @block.1 !host_parameters
  %x1: f32[8,4] = linear(%x0, %block.0.w, _) @block.0
  %block.1.w.loaded: f32[4,4] parameter view %block.1.w.staged+0 = copy_done(%block.1.w.staged, %block.1.w) @block.1 !host_parameters
  %x2: f32[8,4] = linear(%x1, %block.1.w.loaded, _) @block.1
  %x3: f32[8,4] metric = linear(%x2, %block.10.w, _) @block.10
backward
  %block.1.w.grad.staged: f32[4,4] gradient = copy_start(%block.1.w.grad) @block.1 !host_parameters
  %block.10.w.grad, _ = linear_dw(%x, %dy, %block.10.w.grad, _) {bias=false} @block.10
  %block.1.w.grad.loaded: f32[4,4] gradient view %block.1.w.grad.staged+0 = copy_done(%block.1.w.grad.staged, %block.1.w.grad) @block.1 !host_parameters
  %block.1.w.grad.updated: f32[4,4] gradient, _ = linear_dw(%x, %dy, %block.1.w.grad.loaded, _) {bias=false} @block.1
  %block.1.w.grad.squares: f64[] = square_sum(%block.1.w.grad.updated) @block.1 !host_parameters
update
  %block.1.w.staged.2: f32[4,4] parameter = copy_start(%block.1.w) @block.1.w !host_parameters
  %block.1.w.momentum.staged: f32[4,4] optimizer_state = copy_start(%block.1.w.momentum) @block.1.w !host_parameters
  %block.10.w.grad.squares.2: f64[] = square_sum(%block.10.w.grad) !host_parameters
  %grad_norm = root_of_sums(%block.1.w.grad.squares, %block.10.w.grad.squares.2) !host_parameters
  %update_count = increment(%update_count) !update
  %block.1.w.loaded.2: f32[4,4] parameter view %block.1.w.staged.2+0 = copy_done(%block.1.w.staged.2, %block.1.w) @block.1.w !host_parameters
  %block.1.w.momentum.loaded: f32[4,4] optimizer_state view %block.1.w.momentum.staged+0 = copy_done(%block.1.w.momentum.staged, %block.1.w.momentum) @block.1.w !host_parameters
  %block.1.w.updated: f32[4,4] parameter, %block.1.w.momentum.updated: f32[4,4] optimizer_state, _, _ = sgd(%block.1.w.loaded.2, %block.1.w.grad.updated, %block.1.w.momentum.loaded, %lr) {momentum=0.9, nesterov=false, weight_decay=0.1} @block.1.w !update
  %block.1.w = copy_start(%block.1.w.updated) @block.1.w !host_parameters
  %block.1.w.momentum = copy_start(%block.1.w.momentum.updated) @block.1.w !host_parameters
  %block.10.w, %block.10.w.momentum, _, _ = sgd(%block.10.w, %block.10.w.grad, %block.10.w.momentum, %lr) {momentum=0.9, nesterov=false, weight_decay=0.1} @block.10.w !update
  %block.1.w.stored = copy_done(%block.1.w, %block.1.w.updated) @block.1.w !host_parameters
  %block.1.w.momentum.stored = copy_done(%block.1.w.momentum, %block.1.w.momentum.updated) @block.1.w !host_parameters
)");
}

// The peak is %y with what is computed from it.
TEST(SpareBytes, AreThoseBelowThePeak) {
  const Program program = Parse(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %w: f32[4,4] parameter persistent host
forward
  %h: f32[8,4] = linear(%x, %w, _)
  %y: f32[8,8] = place_columns(%h) {axis="tensor", ranks=2}
  %z: f32[8,8] metric = scale(%y) {factor=2.0}
)");
  EXPECT_EQ(SpareBytes(program), (std::vector<int64_t>{384, 128, 0}));
}

// The last three are so small that they are copied together.
constexpr int kParameters = 7;
constexpr int64_t kElements[kParameters] = {96 * 64, 40, 64 * 128, 80 * 80, 16 * 16, 24, 8};

// Parameters of that type, large and small, with carried gradients.
std::string Gradients(const std::string& dtype) {
  std::string text = "program p\n";
  const char* shapes[] = {"96,64", "40", "64,128", "80,80", "16,16", "24", "8"};
  for (int i = 0; i < kParameters; ++i) {
    const std::string name = "%p" + std::to_string(i), shape = "[" + std::string(shapes[i]) + "]";
    text += "  tensor " + name + ": " + dtype + shape + " parameter persistent\n";
    text += "  tensor " + name + ".grad: f32" + shape + " gradient persistent\n";
  }
  return text;
}

struct Case {
  std::string name, dtype;
  UpdateOptions options;
};

// A planned program in its arenas, as the trainer runs it.
class Runner {
 public:
  explicit Runner(Program program)
      : program_(WithWorkspaces(std::move(program))),
        plan_(memory::MakePlan(Programs())),
        arena_(plan_.arena_bytes),
        host_arena_(plan_.host_arena_bytes),
        executor_(program_, plan_.programs[0].layout, arena_, &host_arena_, pool_,
                  {.poison = true}) {
    memory::CheckPlan(Programs(), plan_);
  }

  const Program& program() const { return program_; }
  const memory::MemoryPlan& plan() const { return plan_; }
  template <typename T>
  T* at(const std::string& name) {
    return static_cast<T*>(executor_.address(name));
  }

  void Step(int step) {
    std::mt19937 random(step);
    std::normal_distribution<float> normal;
    for (int i = 0; i < kParameters; ++i) {
      float* gradient = at<float>("p" + std::to_string(i) + ".grad");
      for (int64_t k = 0; k < kElements[i]; ++k) gradient[k] = normal(random);
    }
    *at<float>("lr") = 0.01f;
    if (program_.Find("rng") != graph::kNoTensor) at<int32_t>("rng")[1] = step;
    if (program_.Find("loss_scale") != graph::kNoTensor) *at<float>("loss_scale") = 8;
    executor_.Run();
  }

  // All carried tensors except inputs.
  std::vector<std::pair<std::string, std::string>> Carried() {
    std::vector<std::pair<std::string, std::string>> all;
    for (const memory::PersistentTensor& tensor : plan_.persistent) {
      all.emplace_back(tensor.name, std::string(at<char>(tensor.name), tensor.type.bytes()));
    }
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  static constexpr int kThreads = 2;

  static Program WithWorkspaces(Program program) {
    runtime::AddWorkspaces(program, kThreads);
    return program;
  }
  std::vector<const Program*> Programs() const { return {&program_}; }

  Program program_;
  ThreadPool pool_{kThreads};
  memory::MemoryPlan plan_;
  runtime::Arena arena_, host_arena_;
  runtime::CpuExecutor executor_;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class HostParametersTest : public testing::TestWithParam<Case> {};

TEST_P(HostParametersTest, IsBitEqualToTheDevice) {
  const Case& c = GetParam();
  Program program = Parse(Gradients(c.dtype));
  Update(c.options).Run(program);
  Program moved = program;
  MoveToHost(moved, kState);
  Runner device(std::move(program)), host(std::move(moved));
  const auto start = device.Carried();
  for (int step = 0; step < 3; ++step) {
    device.Step(step);
    host.Step(step);
    EXPECT_EQ(device.Carried(), host.Carried()) << step;
  }
  EXPECT_NE(device.Carried(), start);
}

TEST_P(HostParametersTest, StagesTwoParametersAtMost) {
  const Case& c = GetParam();
  Runner host(OnHost(Gradients(c.dtype), c.options));
  // State of each parameter, sizes as the planner counts them.
  std::vector<int64_t> state(kParameters, 0);
  int64_t on_device = 0;
  for (const memory::PersistentTensor& tensor : host.plan().persistent) {
    const bool is_state = tensor.role == Role::kOptimizerState || tensor.role == Role::kMaster;
    if (is_state && tensor.name != "update_count") {
      EXPECT_EQ(tensor.place, Place::kHost) << tensor.name;
      state[tensor.name[1] - '0'] += tensor.bytes;
    } else {
      EXPECT_EQ(tensor.place, Place::kDevice) << tensor.name;
      on_device += tensor.bytes;
    }
  }
  int64_t two = 0;
  for (int i = 0; i + 1 < kParameters; ++i) two = std::max(two, state[i] + state[i + 1]);
  EXPECT_EQ(host.plan().persistent_bytes, on_device);
  EXPECT_EQ(host.plan().host_arena_bytes, std::accumulate(state.begin(), state.end(), int64_t{0}));
  // In addition there are a few scalars: norms and factors.
  EXPECT_LE(host.plan().max_live_bytes, on_device + two + 10 * 64);
  EXPECT_GE(host.plan().max_live_bytes, on_device + two);
}

INSTANTIATE_TEST_SUITE_P(
    Storage, HostParametersTest,
    testing::Values(Case{"Float32", "f32", {}},
                    Case{"SgdMomentum", "f32", {.algorithm = UpdateOptions::Algorithm::kSgd}},
                    Case{"BFloat16Remainder", "bf16", {}},
                    Case{"BFloat16Stochastic",
                         "bf16",
                         {.master_weights = false, .state_dtype = StateDType::kBFloat16}},
                    Case{"EightBits", "bf16", {.state_dtype = StateDType::kInt8}},
                    Case{"Float16", "f16", {.loss_scale = ops::LossScaleOptions{}}}),
    [](const auto& info) { return info.param.name; });

// Between start and done of loading p4 the whole group is being copied, and its updates follow one
// another.
TEST(HostParameters, SmallNeighboursTravelTogether) {
  const Program program = OnHost(Gradients("f32"), {});
  std::vector<std::string> around;  // the events of the group, in order
  for (const graph::Node& node : program.nodes()) {
    if (node.scope == "p4" || node.scope == "p5" || node.scope == "p6") {
      const std::string what = node.op->name + " " + node.scope;
      if (around.empty() || around.back() != what) around.push_back(what);
    }
  }
  const std::vector<std::string> expected = {
      "copy_start p4", "copy_start p5", "copy_start p6",  // loading
      "copy_done p4",  "copy_done p5",  "copy_done p6",  "adamw p4",      "adamw p5",
      "adamw p6",      "copy_start p4", "copy_start p5", "copy_start p6",  // storing
      "copy_done p4",  "copy_done p5",  "copy_done p6"};
  EXPECT_EQ(around, expected);
}

TEST(HostParameters, LeavesAProgramWithoutStateAlone) {
  Program program = Parse(Gradients("f32"));
  Update({.algorithm = UpdateOptions::Algorithm::kSgd, .momentum = 0}).Run(program);
  const std::string before = graph::ToText(program);
  EXPECT_FALSE(MoveToHost(program, kState));
  EXPECT_EQ(graph::ToText(program), before);
}

}  // namespace
}  // namespace plimsoll::optim
