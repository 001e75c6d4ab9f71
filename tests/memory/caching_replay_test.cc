#include "memory/caching_replay.h"

#include <gtest/gtest.h>

#include <cstring>

#include "graph/builder.h"
#include "memory/lifetimes.h"
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

TEST(CachingReplay, WorkedByHand) {
  const Program p = Steps();
  const Program* programs[] = {&p};
  const MemoryPlan plan = MakePlan(programs);
  const ProgramRuns round[] = {{0}};
  const ReplayResult result = ReplayCaching(programs, plan, round);
  // w, a and b get segments of their own. c fits in none: a's, which is free by then, is too small.
  // d is cut from b's, the smaller of the two free ones. The second round needs no more memory.
  EXPECT_EQ(result.device.peak_reserved, (12 + 30 + 18 + 40) * kMiB);
  EXPECT_EQ(result.device.peak_allocated, (12 + 18 + 40) * kMiB);
  EXPECT_EQ(result.device.segments_reserved, 4);
  EXPECT_NEAR(result.device.fragmentation(), 100.0 / 70 - 1, 1e-12);
  EXPECT_TRUE(result.steady);
  EXPECT_EQ(plan.arena_bytes, 70 * kMiB);  // the planned arena for the same events

  // Emptying the cache between rounds requests all but the first segment again.
  const ReplayResult cleared = ReplayCaching(programs, plan, round, {.empty_cache_every = 1});
  EXPECT_TRUE(cleared.steady);
  EXPECT_LE(cleared.rounds, 5);
  EXPECT_EQ(cleared.device.peak_reserved, result.device.peak_reserved);
  EXPECT_EQ(cleared.device.segments_reserved, 1 + 3 * cleared.rounds);
  EXPECT_EQ(cleared.device.reserved, 12 * kMiB);

  // 100 MiB allocated at once hold everything, including waste: w | a | b | c, and the next a at
  // a's place.
  const ReplayResult at_once =
      ReplayCaching(programs, plan, round, {.preallocate_bytes = 100 * kMiB});
  EXPECT_EQ(at_once.device.peak_reserved, 100 * kMiB);
  EXPECT_EQ(at_once.device.segments_reserved, 1);
}

CachingMemory OnHost(runtime::CachingMemoryOptions options = {}) {
  return {std::make_unique<runtime::MappedSegments>(), std::make_unique<runtime::MappedSegments>(),
          options};
}

CachingMemory Simulated() {
  return {std::make_unique<runtime::SimulatedSegments>(),
          std::make_unique<runtime::SimulatedSegments>()};
}

// Hands out simulated addresses and counts what is asked of it.
class CountedSegments : public runtime::SegmentSource {
 public:
  explicit CountedSegments(int& returned) : returned_(returned) {}

  uintptr_t Reserve(int64_t bytes) override {
    reserved.push_back(bytes);
    return segments_.Reserve(bytes);
  }
  void Return(uintptr_t address, int64_t bytes) override {
    ++returned_;
    segments_.Return(address, bytes);
  }
  void Fill(uintptr_t, int64_t, unsigned char) override {}
  int64_t reserved_bytes() const { return segments_.reserved_bytes(); }

  std::vector<int64_t> reserved;

 private:
  runtime::SimulatedSegments segments_;
  int& returned_;
};

// The source gives the device's segments, all of them and in order, and gets all of them back.
TEST(CachingReplay, SegmentsComeFromTheSourceThatIsGiven) {
  const Program p = Steps();
  const Program* programs[] = {&p};
  const MemoryPlan plan = MakePlan(programs);
  int returned = 0;
  {
    auto source = std::make_unique<CountedSegments>(returned);
    const CountedSegments& segments = *source;
    CachingMemory memory(std::move(source), std::make_unique<runtime::SimulatedSegments>());
    const std::vector<TensorMemory*> memories = FillCachingMemory(programs, plan, true, memory);
    for (int node = 0; node < static_cast<int>(p.nodes().size()); ++node) {
      memories[0]->BeforeNode(node);
      memories[0]->AfterNode(node);
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
  const Program p = Steps();
  const Program* programs[] = {&p};
  const MemoryPlan plan = MakePlan(programs);
  constexpr int64_t kMicroSteps = 1'000'000'000, kPeriod = 1'000'000'000'000;
  const ProgramRuns round[] = {{0}, {0, kMicroSteps}, {0}}, few[] = {{0}, {0, 3}, {0}};
  const ReplayResult long_run =
      ReplayCaching(programs, plan, round, {.empty_cache_every = 1 << 20});
  const ReplayResult short_run = ReplayCaching(programs, plan, few, {.empty_cache_every = 4});
  EXPECT_TRUE(long_run.steady && short_run.steady);
  EXPECT_EQ(long_run.rounds / (1 << 20), short_run.rounds / 4);
  EXPECT_EQ(long_run.device, short_run.device);
  const ReplayResult rarely = ReplayCaching(programs, plan, few, {.empty_cache_every = kPeriod});
  EXPECT_EQ(rarely.rounds % kPeriod, 0);
}

TEST(CachingReplay, InPlaceSharingSavesMemory) {
  Program p("train");
  Builder g(p);
  const Value a = g.Emit1("test_source", {}, N(20 * kFloatsPerMiB));
  const Value b = g.Emit1("test_unary", {a});
  g.Emit1("test_unary", {b});
  const Program* programs[] = {&p};
  const MemoryPlan plan = MakePlan(programs);
  const ProgramRuns round[] = {{0}};
  EXPECT_EQ(ReplayCaching(programs, plan, round).device.peak_allocated, 20 * kMiB);
  const ReplayResult apart = ReplayCaching(programs, plan, round, {.in_place = false});
  EXPECT_EQ(apart.device.peak_allocated, 40 * kMiB);
}

TEST(AllocationSchedule, FollowsTheLifetimes) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Program p = RandomProgram(seed, {.host_tensors = seed % 3 == 0});
    const Lifetimes lifetimes = ComputeLifetimes(p, seed % 2 == 0);
    const runtime::AllocationSchedule schedule = MakeAllocationSchedule(p, seed % 2 == 0);
    std::vector<int> born(schedule.buffers.size(), -1), dying(schedule.buffers.size(), -1);
    for (size_t n = 0; n < p.nodes().size(); ++n) {
      for (int32_t b : schedule.born[n]) born[b] = static_cast<int>(n);
      for (int32_t b : schedule.dying[n]) dying[b] = static_cast<int>(n);
    }
    for (int32_t b : schedule.held) {
      EXPECT_EQ(born[b], -1);
      EXPECT_EQ(dying[b], -1);
      born[b] = lifetimes.buffers[b].birth;
      dying[b] = lifetimes.buffers[b].death;
    }
    for (size_t b = 0; b < schedule.buffers.size(); ++b) {
      EXPECT_EQ(born[b], lifetimes.buffers[b].birth);
      EXPECT_EQ(dying[b], lifetimes.buffers[b].death);
      EXPECT_EQ(schedule.buffers[b].bytes, lifetimes.buffers[b].bytes);
    }
  }
}

// Runs one program in the planned arena and on caching memory, from the same starting bytes: after
// several runs every persistent tensor and metric is equal to the bit.
void ExpectEqualToPlanned(const Program& p, ThreadPool& pool, bool in_place, bool poison) {
  const Program* programs[] = {&p};
  const MemoryPlan plan = MakePlan(programs);
  const runtime::Layout& layout = plan.programs[0].layout;
  runtime::Arena arena(plan.arena_bytes), host(plan.host_arena_bytes);
  runtime::CpuExecutor planned(p, layout, arena, &host, pool);

  CachingMemory memory = OnHost({.poison = poison});
  const std::vector<TensorMemory*> memories = FillCachingMemory(programs, plan, in_place, memory);
  runtime::CpuExecutor caching(p, *memories[0], pool);

  auto for_each = [&](Role role, auto body) {
    for (size_t id = 0; id < p.tensors().size(); ++id) {
      const Tensor& t = p.tensors()[id];
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
    if (run == 1) memory.EmptyCache();
  }
}

TEST(CachingMemory, RunsAreBitEqualToPlanned) {
  ThreadPool pool(2);
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    Program p = RandomProgram(seed, {.host_tensors = seed % 3 == 0});
    runtime::AddWorkspaces(p, pool.size());
    ExpectEqualToPlanned(p, pool, seed % 2 == 0, seed % 4 < 2);
  }
}

// A real run takes the memory that its replay on addresses predicted.
TEST(CachingMemory, ARunTakesWhatItsReplaySays) {
  ThreadPool pool(1);
  for (uint32_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    Program p = RandomProgram(seed, {.nodes = 40, .largest = 300'000});
    runtime::AddWorkspaces(p, pool.size());
    const Program* programs[] = {&p};
    const MemoryPlan plan = MakePlan(programs);
    const ProgramRuns round[] = {{0}};
    const ReplayResult replay = ReplayCaching(programs, plan, round);

    CachingMemory memory = OnHost();
    const std::vector<TensorMemory*> memories = FillCachingMemory(programs, plan, true, memory);
    runtime::CpuExecutor executor(p, *memories[0], pool);
    for (int run = 0; run < replay.rounds; ++run) executor.Run();
    EXPECT_EQ(memory.stats(), replay.device);
    EXPECT_GE(memory.stats().peak_reserved, plan.max_live_bytes);
  }
}

TEST(CachingMemory, AFailedRunLeavesNothingBehind) {
  Program p("p");
  Builder g(p);
  g.Emit1("test_fail", {g.Emit1("test_source", {}, N(10))});
  const Program* programs[] = {&p};
  ThreadPool pool(1);
  CachingMemory memory = OnHost();
  const std::vector<TensorMemory*> memories =
      FillCachingMemory(programs, MakePlan(programs), true, memory);
  runtime::CpuExecutor executor(p, *memories[0], pool);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(executor.Run(), std::exception);
    EXPECT_EQ(memory.stats().requested, memory.stats().peak_requested);
  }
  memories[0]->BeforeRun();
  EXPECT_EQ(memory.stats().allocated, 0);
}

TEST(CachingMemory, PersistentTensorsMustBeThere) {
  const Program p = Steps();
  CachingMemory memory = Simulated();
  ExpectInternalError([&] { memory.AddProgram(p, MakeAllocationSchedule(p)); }, {"'w'"});
  memory.AddPersistent("w", 16, graph::Place::kDevice);
  ExpectInternalError([&] { memory.AddPersistent("w", 16, graph::Place::kDevice); }, {"'w'"});
}

TEST(CpuExecutor, InstrumentsOfTheArenaNeedOne) {
  const Program p = Steps();
  ThreadPool pool(1);
  CachingMemory memory = Simulated();
  memory.AddPersistent("w", 12 * kMiB, graph::Place::kDevice);
  TensorMemory& tensors = memory.AddProgram(p, MakeAllocationSchedule(p));
  ExpectInternalError(
      [&] {
        runtime::CpuExecutor(p, tensors, pool, runtime::ExecutorOptions{.check_arena = true});
      },
      {"check_arena"});
}

}  // namespace
}  // namespace plimsoll::memory
