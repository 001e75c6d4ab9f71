#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "graph/builder.h"
#include "memory/lifetimes.h"
#include "memory/plan.h"
#include "runtime/caching_allocator/caching_allocation.h"
#include "runtime/caching_allocator/simulated_segments.h"
#include "runtime/cpu/cpu_executor.h"
#include "runtime/workspaces.h"
#include "tests/runtime/test_ops.h"
#include "tests/support/expect_error.h"

namespace plimsoll::memory {
namespace {

using graph::Attributes;
using graph::Builder;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::Value;
using runtime::CachingMemory;
using runtime::CachingOptions;
using runtime::Replay;
using runtime::ReplayResult;
using runtime::SimulatedSegments;
using runtime::TensorMemory;

Attributes N(int64_t n) { return {{"n", n}, {"seed", int64_t{1}}}; }

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kFloatsPerMiB = kMiB / 4;

// 12 MiB of weights; a (30 MiB) is allocated, then b (18); a is freed and c (40) allocated; b is
// freed and d (12) allocated, with which the weights are updated.
Program Steps() {
  Program p("train");
  Builder g(p);
  const Value w = g.Persistent("w", Role::kParameter, Float32(12 * kFloatsPerMiB));
  const Value a = g.Emit("test_mix", {w}, N(30 * kFloatsPerMiB), "", {true, false})[0];
  const Value b = g.Emit("test_mix", {a}, N(18 * kFloatsPerMiB), "", {true, false})[0];
  const Value c = g.Emit("test_mix", {b}, N(40 * kFloatsPerMiB), "", {true, false})[0];
  const Value d = g.Emit("test_mix", {c}, N(12 * kFloatsPerMiB), "", {true, false})[0];
  g.EmitInto({w}, "test_update", {w, d});
  return p;
}

// A program with its plan.
struct Planned {
  explicit Planned(Program p) : program(std::move(p)) {}

  Program program;
  const Program* programs[1] = {&program};
  const MemoryPlan plan = MakePlan(programs);
  PlannedPrograms step{{&program}, plan, {{0}}};
};

TEST(CachingReplay, WorkedByHand) {
  const Planned p(Steps());
  const ReplayResult result = Replay(p.step);
  // w, a and b get segments of their own. c fits in none: a's, which is free by then, is too small.
  // d is cut from b's, the smaller of the two free ones. The second round needs no more memory.
  EXPECT_EQ(result.device.peak_reserved, (12 + 30 + 18 + 40) * kMiB);
  EXPECT_EQ(result.device.peak_allocated, (12 + 18 + 40) * kMiB);
  EXPECT_EQ(result.device.segments_reserved, 4);
  EXPECT_NEAR(result.device.fragmentation(), 100.0 / 70 - 1, 1e-12);
  EXPECT_TRUE(result.steady);
  EXPECT_EQ(p.plan.arena_bytes, 70 * kMiB);  // the planned arena for the same events

  // Emptying the cache between rounds requests all but the first segment again.
  const ReplayResult cleared = Replay(p.step, {.empty_cache_every = 1});
  EXPECT_TRUE(cleared.steady);
  EXPECT_LE(cleared.rounds, 5);
  EXPECT_EQ(cleared.device.peak_reserved, result.device.peak_reserved);
  EXPECT_EQ(cleared.device.segments_reserved, 1 + 3 * cleared.rounds);
  EXPECT_EQ(cleared.device.reserved, 12 * kMiB);

  // 100 MiB allocated at once hold everything, including waste: w | a | b | c, and the next a at
  // a's place.
  const ReplayResult at_once = Replay(p.step, {.preallocate_bytes = 100 * kMiB});
  EXPECT_EQ(at_once.device.peak_reserved, 100 * kMiB);
  EXPECT_EQ(at_once.device.segments_reserved, 1);
}

// Counts what is asked of it.
class CountedSegments : public SimulatedSegments {
 public:
  explicit CountedSegments(int& returned) : returned_(returned) {}

  uintptr_t Reserve(int64_t bytes) override {
    reserved.push_back(bytes);
    return SimulatedSegments::Reserve(bytes);
  }
  void Return(uintptr_t address, int64_t bytes) override {
    ++returned_;
    SimulatedSegments::Return(address, bytes);
  }

  std::vector<int64_t> reserved;

 private:
  int& returned_;
};

// The source gives the device's segments, all of them and in order, and gets all of them back.
TEST(CachingReplay, SegmentsComeFromTheSourceThatIsGiven) {
  const Planned p(Steps());
  int returned = 0;
  {
    auto source = std::make_unique<CountedSegments>(returned);
    const CountedSegments& segments = *source;
    CachingMemory memory(p.step, std::move(source), std::make_unique<SimulatedSegments>());
    for (int node = 0; node < static_cast<int>(p.program.nodes().size()); ++node) {
      memory.programs()[0]->BeforeNode(node);
      memory.programs()[0]->AfterNode(node);
    }
    EXPECT_EQ(segments.reserved,
              (std::vector<int64_t>{12 * kMiB, 30 * kMiB, 18 * kMiB, 40 * kMiB}));
    memory.EmptyCache();
    EXPECT_EQ(returned, 3);
    EXPECT_EQ(segments.reserved_bytes(), 12 * kMiB);
  }
  EXPECT_EQ(returned, 4);
}

// Repetitions that change nothing are counted instead of replayed, for any number of them.
TEST(CachingReplay, LongAccumulationsAndRareClearingsAreNotPlayedToTheEnd) {
  Planned p(Steps()), few(Steps());
  constexpr int64_t kMicroSteps = 1'000'000'000, kPeriod = 1'000'000'000'000;
  p.step.round = {{0}, {0, kMicroSteps}, {0}};
  few.step.round = {{0}, {0, 3}, {0}};
  const ReplayResult long_run = Replay(p.step, {.empty_cache_every = 1 << 20});
  const ReplayResult short_run = Replay(few.step, {.empty_cache_every = 4});
  EXPECT_TRUE(long_run.steady && short_run.steady);
  EXPECT_EQ(long_run.rounds / (1 << 20), short_run.rounds / 4);
  EXPECT_EQ(long_run.device, short_run.device);
  EXPECT_EQ(Replay(few.step, {.empty_cache_every = kPeriod}).rounds % kPeriod, 0);
}

TEST(CachingReplay, InPlaceSharingSavesMemory) {
  Program program("train");
  Builder g(program);
  const Value a = g.Emit1("test_source", {}, N(20 * kFloatsPerMiB));
  const Value b = g.Emit1("test_unary", {a});
  g.Emit1("test_unary", {b});
  const Planned p(std::move(program));
  EXPECT_EQ(Replay(p.step).device.peak_allocated, 20 * kMiB);
  EXPECT_EQ(Replay(p.step, {.in_place = false}).device.peak_allocated, 40 * kMiB);
}

TEST(CachingMemory, TemporariesHaveMemoryWhileTheyLive) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const Planned p(RandomProgram(seed, {.host_tensors = seed % 3 == 0}));
    const bool in_place = seed % 2 == 0;
    const Lifetimes lifetimes = ComputeLifetimes(p.program, in_place);
    CachingMemory memory(p.step, std::make_unique<SimulatedSegments>(),
                         std::make_unique<SimulatedSegments>(), {.in_place = in_place});
    TensorMemory& tensors = *memory.programs()[0];
    int64_t persistent = 0;
    for (const PersistentTensor& tensor : p.plan.persistent) persistent += tensor.type.bytes();
    for (int n = 0; n < static_cast<int>(p.program.nodes().size()); ++n) {
      tensors.BeforeNode(n);
      int64_t expected = persistent;
      for (const Buffer& buffer : lifetimes.buffers) {
        const bool held = std::ranges::any_of(buffer.tensors, [&](graph::TensorId id) {
          const Role role = p.program.tensor(id).role;
          return role == Role::kInput || role == Role::kMetric;
        });
        const bool lives = held || (buffer.birth <= n && n <= buffer.death);
        EXPECT_EQ(tensors.address(buffer.tensors[0]) != nullptr, lives) << n;
        if (lives) expected += buffer.bytes;
      }
      EXPECT_EQ(memory.stats().requested + memory.host_stats().requested, expected) << n;
      tensors.AfterNode(n);
    }
  }
}

// On the CPU's segments.
struct OnHost {
  explicit OnHost(const PlannedPrograms& step, int threads = 1, const CachingOptions& options = {},
                  bool poison = false)
      : pool(threads),
        cpu(runtime::MakeCpuDevice(pool)),
        memory(step, cpu->MakeSegments(graph::Place::kDevice),
               cpu->MakeSegments(graph::Place::kHost), options, poison),
        executor(*step.programs[0], *memory.programs()[0], pool) {}

  ThreadPool pool;
  std::unique_ptr<runtime::Device> cpu;
  CachingMemory memory;
  runtime::CpuExecutor executor;
};

// Runs one program in the planned arena and on caching memory, from the same starting bytes: after
// several runs every persistent tensor and metric is equal to the bit.
void ExpectEqualToPlanned(const Planned& p, ThreadPool& pool, bool in_place, bool poison) {
  const runtime::Layout& layout = p.plan.programs[0].layout;
  runtime::Arena arena(p.plan.arena_bytes), host(p.plan.host_arena_bytes);
  runtime::CpuExecutor planned(p.program, layout, arena, &host, pool);
  OnHost on_host(p.step, pool.size(), {.in_place = in_place}, poison);
  runtime::CpuExecutor& caching = on_host.executor;

  auto for_each = [&](Role role, auto body) {
    for (size_t id = 0; id < p.program.tensors().size(); ++id) {
      const Tensor& t = p.program.tensors()[id];
      if (t.alias || layout.offsets[id] == runtime::kUnplaced) continue;
      if (t.role != role && !(role == Role::kParameter && t.persistent)) continue;
      body(t, planned.address(t.name), caching.address(t.name));
    }
  };
  float value = 0.25f;
  auto fill = [&](const Tensor& t, void* a, void* b) {
    for (int64_t i = 0; i < t.type.shape.elements(); ++i) {
      value = value * 1.7f + 0.3f;
      if (value > 2) value -= 2;
      static_cast<float*>(a)[i] = static_cast<float*>(b)[i] = value;
    }
  };
  for_each(Role::kParameter, fill);
  for (int run = 0; run < 3; ++run) {
    for_each(Role::kInput, fill);
    planned.Run();
    caching.Run();
    int64_t compared = 0;
    auto equal = [&](const Tensor& t, const void* a, const void* b) {
      EXPECT_EQ(std::memcmp(a, b, static_cast<size_t>(t.bytes())), 0) << t.name;
      ++compared;
    };
    for_each(Role::kParameter, equal);
    for_each(Role::kMetric, equal);
    EXPECT_GT(compared, 0);
    if (run == 1) on_host.memory.EmptyCache();
  }
}

TEST(CachingMemory, RunsAreBitEqualToPlanned) {
  ThreadPool pool(2);
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    Program p = RandomProgram(seed, {.host_tensors = seed % 3 == 0});
    runtime::AddWorkspaces(p, {.threads = pool.size()});
    ExpectEqualToPlanned(Planned(std::move(p)), pool, seed % 2 == 0, seed % 4 < 2);
  }
}

// A real run takes the memory that its replay on addresses predicted.
TEST(CachingMemory, ARunTakesWhatItsReplaySays) {
  ThreadPool pool(1);
  for (uint32_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    Program program = RandomProgram(seed, {.nodes = 40, .largest = 300'000});
    runtime::AddWorkspaces(program, {.threads = pool.size()});
    const Planned p(std::move(program));
    const ReplayResult replay = Replay(p.step);
    OnHost caching(p.step);
    for (int run = 0; run < replay.rounds; ++run) caching.executor.Run();
    EXPECT_EQ(caching.memory.stats(), replay.device);
    EXPECT_GE(caching.memory.stats().peak_reserved, p.plan.max_live_bytes);
  }
}

TEST(CachingMemory, AFailedRunLeavesNothingBehind) {
  Program program("p");
  Builder g(program);
  g.Emit1("test_fail", {g.Emit1("test_source", {}, N(10))});
  const Planned p(std::move(program));
  OnHost caching(p.step);
  const runtime::AllocatorStats& stats = caching.memory.stats();
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(caching.executor.Run(), std::exception);
    EXPECT_EQ(stats.requested, stats.peak_requested);
  }
  caching.memory.programs()[0]->BeforeRun();
  EXPECT_EQ(stats.allocated, 0);
}

CachingMemory Simulated(const PlannedPrograms& step) {
  return {step, std::make_unique<SimulatedSegments>(), std::make_unique<SimulatedSegments>()};
}

TEST(CachingMemory, PersistentTensorsMustBeThere) {
  const Planned p(Steps());
  MemoryPlan none = p.plan, twice = p.plan;
  none.persistent.clear();
  twice.persistent.push_back(twice.persistent[0]);
  for (const MemoryPlan* plan : {&none, &twice}) {
    ExpectInternalError([&] { Simulated({p.step.programs, *plan, p.step.round}); }, {"'w'"});
  }
}

TEST(CpuExecutor, InstrumentsOfTheArenaNeedOne) {
  const Planned p(Steps());
  ThreadPool pool(1);
  CachingMemory memory = Simulated(p.step);
  ExpectInternalError(
      [&] {
        runtime::CpuExecutor(p.program, *memory.programs()[0], pool,
                             runtime::ExecutorOptions{.check_arena = true});
      },
      {"check_arena"});
}

}  // namespace
}  // namespace plimsoll::memory
