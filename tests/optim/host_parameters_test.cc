// Parameters in host memory: there before their use, within their room, with the bits of the
// device.
#include "optim/host_parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "graph/simplify.h"
#include "memory/checker.h"
#include "memory/plan.h"
#include "optim/host_residency.h"
#include "optim/spare_bytes.h"
#include "optim/update.h"
#include "runtime/arena.h"
#include "runtime/cpu/cpu_executor.h"
#include "runtime/workspaces.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::optim {
namespace {

using graph::DType;
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

using Counts = std::map<std::string, int>;

// What must hold of a program whose parameters live on the host, wherever its copies stand: nodes
// find on the device what they read and write, behind the end of its copy; and what goes back has
// arrived before it is loaded again, and at the end.
struct HostCopies {
  explicit HostCopies(const Program& program) {
    std::set<graph::TensorId> staged, leaving;
    const auto on_host = [&](graph::TensorId id) {
      return id != graph::kNoTensor && program.tensor(id).place == Place::kHost;
    };
    for (const graph::Node& node : program.nodes()) {
      if (node.op->name == "copy_start") {
        const graph::TensorId from = node.inputs[0], to = node.outputs[0];
        EXPECT_NE(on_host(from), on_host(to));
        EXPECT_FALSE(leaving.contains(program.Root(from))) << "loaded before it has arrived";
        if (on_host(from)) {
          staged.insert(to);
          ++loads[program.tensor(program.Root(from)).name];
        } else {
          EXPECT_TRUE(leaving.insert(program.Root(to)).second);
          ++stores[program.tensor(program.Root(to)).name];
        }
      } else if (node.op->name == "copy_done") {
        const graph::TensorId copy = node.inputs[0];
        EXPECT_EQ(on_host(copy) ? leaving.erase(program.Root(copy)) : staged.erase(copy), 1u);
      } else {
        for (const auto* ids : {&node.inputs, &node.outputs}) {
          for (const graph::TensorId id : *ids) {
            EXPECT_FALSE(on_host(id)) << node.op->name << " works on the host";
            EXPECT_FALSE(staged.contains(id)) << node.op->name << " is too early";
          }
        }
      }
    }
    EXPECT_TRUE(staged.empty() && leaving.empty()) << "copies have no end";
  }

  Counts loads, stores;  // by the name of the tensor on the host
};

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
    text += "  tensor " + name + ".grad: f32" + shape + " gradient persistent of " + name +
            " as gradient\n";
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

  // With inputs and gradients that follow from their names and the step; parameters begin so.
  void Step(int step) {
    for (const memory::PersistentTensor& tensor : plan_.persistent) {
      const bool fresh = tensor.role == Role::kInput || tensor.role == Role::kGradient;
      if (fresh || (step == 0 && tensor.role == Role::kParameter)) Draw(tensor, step);
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
    runtime::AddWorkspaces(program, {.threads = kThreads});
    return program;
  }
  std::vector<const Program*> Programs() const { return {&program_}; }

  void Draw(const memory::PersistentTensor& tensor, int step) {
    std::seed_seq seed(tensor.name.begin(), tensor.name.end());
    std::mt19937 random(seed);
    random.discard(static_cast<unsigned long long>(step) * 1000);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < tensor.type.shape.elements(); ++i) {
      const float value = normal(random);
      if (tensor.type.dtype == DType::kFloat32) at<float>(tensor.name)[i] = value;
      // The upper half of a float32 is a bf16, and as float16 some number, too.
      if (graph::ByteSize(tensor.type.dtype) == 2) {
        at<uint16_t>(tensor.name)[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
      }
    }
  }

  Program program_;
  ThreadPool pool_{kThreads};
  memory::MemoryPlan plan_;
  runtime::Arena arena_, host_arena_;
  runtime::CpuExecutor executor_;
};

// The program gives the same bits with what the options name on the host. Returns how often it is
// loaded and stored there.
HostCopies ExpectSameOnHost(const Program& program, const HostParametersOptions& options) {
  Program moved = program;
  EXPECT_TRUE(MoveToHost(moved, options));
  HostCopies found(moved);
  Runner device(program), host(moved);
  for (int step = 0; step < 3; ++step) {
    device.Step(step);
    host.Step(step);
    const auto expected = device.Carried(), actual = host.Carried();
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::string& name = expected[i].first;
      const graph::Tensor& tensor = moved.tensor(moved.Find(name));
      // Gradients that the update has used up are not stored.
      if (tensor.role == Role::kGradient && tensor.place == Place::kHost &&
          !found.stores.contains(name)) {
        continue;
      }
      EXPECT_EQ(actual[i], expected[i]) << step;
    }
  }
  return found;
}

// The average follows its parameter's update, from the remainder that this has just made.
TEST(HostParameters, AveragesBesideTheUpdate) {
  Program program = Parse(R"(program p
  tensor %a: bf16[8,4] parameter persistent
  tensor %a.grad: f32[8,4] gradient persistent of %a as gradient
)");
  Update({.algorithm = UpdateOptions::Algorithm::kSgd,
          .momentum = 0,
          .weight_decay = 0.25,
          .clip_grad_norm = 0,
          .average = ops::WeightAverageOptions{.decay = 0.75}})
      .Run(program);
  const HostCopies found = ExpectSameOnHost(program, kState);
  const Counts once = {{"a.ema", 1}, {"a.remainder", 1}};
  EXPECT_EQ(found.loads, once);
  EXPECT_EQ(found.stores, once);
}

size_t IndexOf(const Program& program, const std::string& op, const std::string& scope) {
  const auto at = std::ranges::find_if(program.nodes(), [&](const graph::Node& node) {
    return node.op->name == op && node.scope == scope;
  });
  EXPECT_NE(at, program.nodes().end()) << op << " " << scope;
  return static_cast<size_t>(at - program.nodes().begin());
}

// Two matrices in bf16, without momentum: their only state is the remainders.
TEST(HostParameters, PrefetchesOneParameterAhead) {
  Program program = Parse(R"(program p
  tensor %a: bf16[8,4] parameter persistent
  tensor %b: bf16[4,4] parameter persistent
  tensor %a.grad: f32[8,4] gradient persistent of %a as gradient
  tensor %b.grad: f32[4,4] gradient persistent of %b as gradient
)");
  Update({.algorithm = UpdateOptions::Algorithm::kSgd,
          .momentum = 0,
          .weight_decay = 0.25,
          .clip_grad_norm = 0})
      .Run(program);
  const HostCopies found = ExpectSameOnHost(program, kState);
  const Counts once = {{"a.remainder", 1}, {"b.remainder", 1}};
  EXPECT_EQ(found.loads, once);
  EXPECT_EQ(found.stores, once);
  MoveToHost(program, kState);
  EXPECT_LT(IndexOf(program, "copy_start", "b"), IndexOf(program, "sgd", "a"));
  EXPECT_LT(IndexOf(program, "sgd", "a"), IndexOf(program, "copy_done", "b"));
  // Simplify removes none of it as useless.
  EXPECT_FALSE(graph::Simplify().Run(program).changed);
}

constexpr char kSgd[] = "{momentum=0.0, nesterov=false, weight_decay=0.0}";

// Two blocks. The last one's weight stays for what is computed again, for the backward pass and for
// its update; the other one is loaded twice, since the forward pass of block 1 comes in between.
TEST(HostParameters, WeightsStayForABlock) {
  const Program program = Parse(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,4] input persistent
  tensor %lr: f32[] input persistent
  tensor %a: f32[4,4] parameter persistent
  tensor %b: f32[4,4] parameter persistent
forward
  %y: f32[8,4] = linear(%x, %a) @block.0
  %z: f32[8,4] metric = linear(%y, %b) @block.1
recompute
  %again: f32[8,4] = linear(%y, %b) @block.1
backward
  %dz: f32[8,4] = linear_dx(%again, %b) @block.1
  %b.grad: f32[4,4] gradient of %b as gradient, _ = linear_dw(%y, %dz, _, _) {bias=false} @block.1
update
  %b, _, _, _ = sgd(%b, %b.grad, _, %lr) )" +
                                std::string(kSgd) + R"( @block.1.b
backward
  %dx: f32[8,4] metric = linear_dx(%dz, %a) @block.0
)");
  const HostCopies found =
      ExpectSameOnHost(program, {.weights = true, .least_bytes = 0, .ahead_bytes = 0});
  EXPECT_EQ(found.loads, (Counts{{"a", 2}, {"b", 1}}));
  EXPECT_EQ(found.stores, (Counts{{"b", 1}}));
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
  tensor %head.grad: f32[64,4] gradient persistent of %head as gradient
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
  const std::vector<FetchGroup> groups = FindResidencies(program, on_host);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].bytes, 64);
  EXPECT_TRUE(groups[0].in_block);
  EXPECT_EQ(groups[1].bytes, 1024);
  EXPECT_FALSE(groups[1].in_block);
}

// Each micro-step adds to a carried gradient, and the last one has the update: the norm is summed
// up where gradients are, and they are not stored for an update that is done.
TEST(HostParameters, CarriedGradientsComeAndGo) {
  const std::string tensors = R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %dy: f32[8,4] input persistent
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %a: f32[4,4] parameter persistent
  tensor %b: f32[4,4] parameter persistent
  tensor %a.grad: f32[4,4] gradient persistent of %a as gradient
)";
  const HostParametersOptions options = {.gradients = true, .least_bytes = 0};
  const HostCopies first = ExpectSameOnHost(Parse(tensors + R"(backward
  %a.grad, _ = linear_dw(%x, %dy, _, _) {bias=false} @block.0
)"),
                                            options);
  EXPECT_EQ(first.loads, Counts());
  EXPECT_EQ(first.stores, (Counts{{"a.grad", 1}}));
  const Program last =
      Parse(tensors + R"(  tensor %b.grad: f32[4,4] gradient persistent of %b as gradient
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
  const HostCopies found = ExpectSameOnHost(last, options);
  EXPECT_EQ(found.loads, (Counts{{"a.grad", 1}, {"b.grad", 2}}));
  EXPECT_EQ(found.stores, (Counts{{"b.grad", 1}}));
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
  tensor %block.1.w.grad: f32[4,4] gradient persistent of %block.1.w as gradient
  tensor %block.10.w.grad: f32[4,4] gradient persistent of %block.10.w as gradient
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
  const HostCopies found = ExpectSameOnHost(
      program,
      {.weights = true, .gradients = true, .state = true, .blocks = {"block.1"}, .least_bytes = 0});
  EXPECT_EQ(found.loads,
            (Counts{{"block.1.w", 2}, {"block.1.w.grad", 1}, {"block.1.w.momentum", 1}}));
  EXPECT_EQ(found.stores, (Counts{{"block.1.w", 1}, {"block.1.w.momentum", 1}}));
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

std::vector<Case> Cases() {
  return {{"Float32", "f32", {}},
          {"SgdMomentum", "f32", {.algorithm = UpdateOptions::Algorithm::kSgd}},
          {"BFloat16Remainder", "bf16", {}},
          {"BFloat16Stochastic",
           "bf16",
           {.master_weights = false, .state_dtype = StateDType::kBFloat16}},
          {"EightBits", "bf16", {.state_dtype = StateDType::kInt8}},
          {"Float16", "f16", {.loss_scale = ops::LossScaleOptions{}}}};
}

INSTANTIATE_TEST_SUITE_P(Storage, HostParametersTest, testing::ValuesIn(Cases()),
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
