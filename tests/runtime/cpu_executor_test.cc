#include "runtime/cpu/cpu_executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/builder.h"
#include "memory/plan.h"
#include "runtime/process_memory.h"
#include "runtime/workspaces.h"
#include "tests/runtime/test_ops.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/expect_error.h"

namespace plimsoll::runtime {
namespace {

using graph::Attributes;
using graph::Builder;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::TensorId;
using graph::Value;

const Attributes kTen = {{"n", int64_t{10}}, {"seed", int64_t{1}}};

// A layout in which every tensor has its own memory: only aliases share.
Layout Apart(const Program& program) {
  Layout layout;
  for (const Tensor& tensor : program.tensors()) {
    if (tensor.alias) {
      layout.offsets.push_back(layout.offsets[tensor.alias->base] + tensor.alias->byte_offset);
      continue;
    }
    int64_t& end =
        tensor.place == graph::Place::kDevice ? layout.arena_bytes : layout.host_arena_bytes;
    layout.offsets.push_back(end);
    end += (tensor.bytes() + 63) / 64 * 64;
  }
  return layout;
}

memory::MemoryPlan PlanOf(const Program& program) {
  const Program* programs[] = {&program};
  return memory::MakePlan(programs);
}

// A program with its own arenas.
class Bench {
 public:
  Bench(const Program& program, const Layout& layout, ThreadPool& pool,
        ExecutorOptions options = {})
      : program_(program),
        arena_(layout.arena_bytes),
        host_(layout.host_arena_bytes),
        executor_(program, layout, arena_, &host_, pool, options) {
    float value = 0.5f;
    for (const Tensor& tensor : program.tensors()) {
      const bool input = tensor.role == Role::kInput;
      if (tensor.alias || !(tensor.persistent || input)) continue;
      float* data = static_cast<float*>(executor_.address(tensor.name));
      for (int64_t i = 0; i < tensor.type.shape.elements(); ++i) {
        data[i] = value = std::fmod(value * 1.7f + 0.3f, 2.0f);
      }
      if (input) slots_.emplace_back(data, std::vector<float>(data, data + tensor.bytes() / 4));
    }
  }

  // Fills the inputs, whose memory the last run may have reused, and runs.
  void Run() {
    for (auto& [data, values] : slots_) std::memcpy(data, values.data(), values.size() * 4);
    executor_.Run();
  }

  // All results that the host can see, bit for bit.
  std::string Results() const {
    std::string bits;
    for (const Tensor& tensor : program_.tensors()) {
      if (!tensor.persistent && tensor.role != Role::kMetric) continue;
      const char* data = static_cast<const char*>(executor_.address(tensor.name));
      bits.append(data, data + tensor.bytes());
    }
    return bits;
  }

  CpuExecutor& executor() { return executor_; }
  Arena& arena() { return arena_; }

 private:
  const Program& program_;
  Arena arena_;
  Arena host_;
  CpuExecutor executor_;
  std::vector<std::pair<float*, std::vector<float>>> slots_;
};

TEST(CpuExecutor, PlannedMemoryGivesTheSameBitsAsMemoryApart) {
  ThreadPool pool(2);
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomProgramOptions options;
    options.nodes = 10 + static_cast<int>(seed);
    options.host_tensors = seed % 3 == 0;
    Program program = RandomProgram(seed, options);
    AddWorkspaces(program, {.threads = pool.size()});
    const memory::MemoryPlan plan = PlanOf(program);
    const Layout& layout = plan.programs[0].layout;

    Bench apart(program, Apart(program), pool);
    Bench planned(program, layout, pool);
    ExecutorOptions instruments;
    instruments.poison = true;
    instruments.check_arena = true;
    instruments.profile = true;
    instruments.check_finite = true;
    Bench checked(program, layout, pool, instruments);
    ExecutorOptions poison;
    poison.poison = true;
    Bench poisoned(program, layout, pool, poison);
    for (int run = 0; run < 3; ++run) {
      apart.Run();
      planned.Run();
      checked.Run();
      poisoned.Run();
      ASSERT_EQ(planned.Results(), apart.Results());
      ASSERT_EQ(checked.Results(), apart.Results());
      ASSERT_EQ(poisoned.Results(), apart.Results());
    }
    EXPECT_EQ(checked.executor().used_bytes(),
              plan.persistent_bytes + plan.programs[0].temporary_bytes);
    EXPECT_EQ(checked.executor().runs(), 3);
  }
}

// Returns when both threads of the pool run: a starting thread may allocate (with asan it does).
void MeetBothThreads(ThreadPool& pool) {
  std::atomic<int> arrived{0};
  pool.ParallelFor(2, 1, [&](int64_t, int64_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
}

TEST(CpuExecutor, ARunAllocatesNothing) {
  ThreadPool pool(2);
  MeetBothThreads(pool);
  Program program = RandomProgram(5, {.nodes = 60});
  AddWorkspaces(program, {.threads = pool.size()});
  const memory::MemoryPlan plan = PlanOf(program);
  for (bool instruments : {false, true}) {
    ExecutorOptions options;
    options.poison = options.check_arena = options.profile = options.check_finite = instruments;
    Bench bench(program, plan.programs[0].layout, pool, options);
    bench.Run();
    const int64_t allocations = CountAllocations([&] {
      for (int run = 0; run < 10; ++run) bench.Run();
      MeasureProcessMemory();
    });
    EXPECT_EQ(allocations, 0) << "instruments " << instruments;
  }
}

// Runs a program of one source and one other op in separate memory; returns the error, if any.
std::optional<std::string> ErrorOf(const Program& program, ExecutorOptions options) {
  ThreadPool pool(1);
  return MessageOf<InternalError>([&] {
    Bench bench(program, Apart(program), pool, options);
    bench.Run();
  });
}

TEST(CpuExecutor, FailuresNameTheNode) {
  Program p("train");
  Builder g(p);
  g.set_scope("block.2.mlp");
  g.Emit1("test_source", {}, kTen, "a");
  g.Emit1("test_fail", {0}, {}, "b");
  ExpectMessage(ErrorOf(p, {}),
                {"train", "node 1", "test_fail in block.2.mlp", "block.2.mlp.a f32[10]",
                 "block.2.mlp.b f32[10]", "the kernel gives up"});
}

TEST(CpuExecutor, FiniteCheckNamesTheFirstNode) {
  Program p("train");
  Builder g(p);
  g.Emit1("test_source", {}, kTen, "a");
  g.Emit1("test_nan", {0}, {}, "b");
  g.Emit1("test_unary", {1}, {}, "c");
  EXPECT_EQ(ErrorOf(p, {}), std::nullopt);
  ExecutorOptions options;
  options.check_finite = true;
  ThreadPool pool(1);
  Bench bench(p, Apart(p), pool, options);
  ExpectUserError([&] { bench.Run(); },
                  {"debug.find_nan", "node 1", "test_nan", "'b' is not finite at element 0"});
}

TEST(CpuExecutor, ArenaCheckFindsStrayWrites) {
  Program p("train");
  Builder g(p);
  g.Emit1("test_source", {}, kTen, "a");
  g.Emit1("test_stray", {0}, {{"beyond", int64_t{3}}}, "b");
  ExecutorOptions options;
  options.check_arena = true;
  // b is at 64..104 of an arena of 128 bytes.
  ExpectMessage(ErrorOf(p, options), {"train", "byte 107"});
}

TEST(CpuExecutor, UsedBytesAreMeasuredNotPlanned) {
  // A layout that claims more than its nodes ever write.
  Program p("train");
  Builder g(p);
  g.Emit1("test_source", {}, kTen, "a");
  Layout layout = Apart(p);
  layout.arena_bytes = 4096;
  ExecutorOptions options;
  options.check_arena = true;
  ThreadPool pool(1);
  Bench bench(p, layout, pool, options);
  bench.Run();
  EXPECT_EQ(bench.executor().used_bytes(), 64);
}

TEST(CpuExecutor, PoisonReachesThoseWhoReadTheDead) {
  // c reads the bytes of a through a tensor that no node wrote, because of a wrong layout.
  Program p("train");
  Builder g(p);
  const Value a = g.Emit1("test_source", {}, kTen, "a");
  g.Emit("test_mix", {a}, kTen, "b", {true, false});
  graph::Tensor stale;
  stale.name = "stale";
  stale.type = Float32(10);
  const Value ghost = p.AddTensor(stale);
  const Value c = g.Emit("test_mix", {ghost}, kTen, "c", {true, false})[0];
  p.mutable_tensor(c).role = Role::kMetric;
  ThreadPool pool(1);
  AddWorkspaces(p, {.threads = 1});
  Layout layout = Apart(p);
  layout.offsets[ghost] = layout.offsets[a];
  auto first = [&](ExecutorOptions options) {
    Bench bench(p, layout, pool, options);
    bench.Run();
    return *static_cast<float*>(bench.executor().address("c"));
  };
  EXPECT_TRUE(std::isfinite(first({})));
  ExecutorOptions poison;
  poison.poison = true;
  EXPECT_TRUE(std::isnan(first(poison)));
}

TEST(CpuExecutor, PoisonReachesOutputsLeftUnwritten) {
  Program p("train");
  Builder g(p);
  const Value a = g.Emit1("test_source", {}, {{"n", int64_t{32}}, {"seed", int64_t{1}}}, "a");
  const Value b = g.Emit1("test_lazy", {a}, {}, "b");
  p.mutable_tensor(b).role = Role::kMetric;
  ThreadPool pool(1);
  ExecutorOptions poison;
  poison.poison = true;
  Bench bench(p, Apart(p), pool, poison);
  bench.Run();
  const float* values = static_cast<float*>(bench.executor().address("b"));
  EXPECT_EQ(values[15], 0.0f);
  EXPECT_TRUE(std::isnan(values[16]));
}

TEST(CpuExecutor, ProfileCountsTimePerOp) {
  ThreadPool pool(1);
  Program program = RandomProgram(2);
  AddWorkspaces(program, {.threads = 1});
  ExecutorOptions options;
  options.profile = true;
  Bench bench(program, PlanOf(program).programs[0].layout, pool, options);
  bench.Run();
  bench.Run();
  int64_t by_op = 0, by_node = 0, nodes = 0, expected_nodes = 0;
  for (const Executor::OpTime& time : bench.executor().op_times()) {
    by_op += time.nanoseconds;
    nodes += time.nodes;
  }
  for (int64_t ns : bench.executor().node_nanoseconds()) by_node += ns;
  for (const graph::Node& node : program.nodes()) expected_nodes += !node.op->view;
  EXPECT_GT(by_op, 0);
  EXPECT_EQ(by_op, by_node);
  EXPECT_EQ(nodes, expected_nodes);
  bench.executor().ResetProfile();
  EXPECT_EQ(bench.executor().runs(), 0);
  EXPECT_EQ(bench.executor().op_times()[0].nanoseconds, 0);
}

TEST(CpuExecutor, AddressesOfWhatTheHostMayTouch) {
  Program p("train");
  Builder g(p);
  const Value w = g.Persistent("w", Role::kParameter, Float32(4));
  g.Emit("test_mix", {w}, kTen, "a", {true, false});
  ThreadPool pool(1);
  AddWorkspaces(p, {.threads = 1});
  Bench bench(p, PlanOf(p).programs[0].layout, pool);
  EXPECT_EQ(bench.executor().address("w"), bench.arena().data());
  EXPECT_EQ(bench.executor().type("w"), Float32(4));
  EXPECT_THROW(bench.executor().address("a"), InternalError);
  EXPECT_THROW(bench.executor().address("no such"), InternalError);
  EXPECT_THROW(bench.executor().used_bytes(), InternalError);
}

TEST(CpuExecutor, RefusesWhatItCannotRun) {
  ThreadPool pool(1);
  Program p("train");
  Builder g(p);
  const Value a = g.Emit1("test_source", {}, kTen, "a");
  g.Emit("test_mix", {a}, kTen, "b", {true, false});
  auto error = [&](const Layout& layout, int64_t arena_bytes) {
    Arena arena(arena_bytes);
    return MessageOf<InternalError>([&] { CpuExecutor executor(p, layout, arena, nullptr, pool); });
  };
  ExpectMessage(error(Apart(p), 4096), {"node 1", "workspace", "want 40"});
  AddWorkspaces(p, {.threads = 1});
  EXPECT_EQ(error(Apart(p), 4096), std::nullopt);
  ExpectMessage(error(Apart(p), 64), {"train", "does not fit"});
  Layout bad = Apart(p);
  bad.offsets[a] = kUnplaced;
  ExpectMessage(error(bad, 4096), {"'a'", "outside"});
  bad.offsets[a] = bad.arena_bytes - 4;
  ExpectMessage(error(bad, 4096), {"'a'", "outside"});
}

TEST(Workspaces, NamedAndSizedAsTheKernelWants) {
  Program p("train");
  Builder g(p);
  g.set_scope("head");
  const Value a = g.Emit1("test_source", {}, kTen, "a");
  g.Emit1("test_mix", {a}, {{"n", int64_t{33}}}, "b");
  EXPECT_TRUE(AddWorkspaces(p, {.threads = 2}));
  const Tensor& workspace = p.tensor(p.Require("head.test_mix.workspace"));
  EXPECT_EQ(workspace.bytes(), 33 * 4);
  EXPECT_EQ(workspace.role, Role::kWorkspace);
  EXPECT_EQ(p.nodes()[1].workspace, p.Require("head.test_mix.workspace"));
  EXPECT_EQ(p.nodes()[0].workspace, graph::kNoTensor);
  EXPECT_FALSE(AddWorkspaces(p, {.threads = 2}));
}

// What a program keeps for another one, up to its last reader there.
TEST(CpuExecutor, PoisonsKeptTensors) {
  Program forward("forward"), backward("backward");
  Builder f(forward), b(backward);
  const Value written = f.Emit1("test_source", {}, kTen);
  forward.Rename(written, "h");
  forward.mutable_tensor(written).persistent = true;
  const Value read = b.Persistent("h", Role::kActivation, forward.tensor(written).type);
  const Value sum = b.Persistent("sum", Role::kGradient, forward.tensor(written).type);
  b.EmitInto({sum}, "test_update", {sum, read});
  const Program* programs[] = {&forward, &backward};
  const memory::MemoryPlan plan =
      memory::MakePlan(programs, {.order = {.runs = {0, 1}, .kept = {"h"}}});
  ThreadPool pool(1);
  Arena arena(plan.arena_bytes);
  ExecutorOptions poison;
  poison.poison = true;
  CpuExecutor first(forward, plan.programs[0].layout, arena, nullptr, pool, poison);
  CpuExecutor second(backward, plan.programs[1].layout, arena, nullptr, pool, poison);
  const auto* h = static_cast<const float*>(first.address("h"));
  const auto* summed = static_cast<const float*>(second.address("sum"));
  first.Run();
  EXPECT_FALSE(std::isnan(h[0]));
  second.Run();
  EXPECT_TRUE(std::isnan(h[0]) && std::isnan(h[9]));
  EXPECT_FALSE(std::isnan(summed[0]));
}

}  // namespace
}  // namespace plimsoll::runtime
