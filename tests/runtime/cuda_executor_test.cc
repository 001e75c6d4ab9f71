// Programs of the test ops on a GPU, in every mode of the executor.
#include "runtime/cuda/cuda_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "gpu/capability.h"
#include "graph/builder.h"
#include "memory/plan.h"
#include "ops/data_movement/copy.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/workspaces.h"
#include "tests/runtime/test_ops.h"
#include "tests/support/expect_error.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::runtime {
namespace {

using graph::Builder;
using graph::Place;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::TensorId;
using graph::Value;

memory::MemoryPlan PlanOf(const Program& program, DeviceKind kind) {
  const Program* programs[] = {&program};
  return memory::MakePlan(programs, {.alignment = TensorAlignment(kind)});
}

// A program in a device's memory.
class Bench {
 public:
  Bench(Device& device, Program program, ExecutorOptions options = {})
      : program_(std::move(program)) {
    AddWorkspaces(
        program_,
        {.kind = device.kind(), .threads = device.pool().size(), .gpu = gpu::CurrentCapability()});
    plan_ = PlanOf(program_, device.kind());
    memory_ = device.Allocate(plan_.arena_bytes, plan_.host_arena_bytes);
    const DeviceMemory::BoundProgram bound{&program_, &plan_.programs[0].layout};
    executor_ = std::move(memory_->MakeExecutors({&bound, 1}, options)[0]);
    float value = 0.5f;
    for (const Tensor& tensor : program_.tensors()) {
      const bool input = tensor.role == Role::kInput;
      if (tensor.alias || !(tensor.persistent || input)) continue;
      std::vector<float> values(static_cast<size_t>(tensor.type.shape.elements()));
      for (float& v : values) v = value = std::fmod(value * 1.7f + 0.3f, 2.0f);
      memory_->Write(RangeOf(tensor), values.data());
      if (input) slots_.emplace_back(RangeOf(tensor), values);
    }
  }

  void Run() {
    for (const auto& [range, values] : slots_) memory_->Write(range, values.data());
    executor_->Run();
  }

  // All results that the host can see.
  std::vector<float> Results() {
    std::vector<float> results;
    for (const Tensor& tensor : program_.tensors()) {
      if (tensor.alias || (!tensor.persistent && tensor.role != Role::kMetric)) continue;
      std::vector<float> values(static_cast<size_t>(tensor.type.shape.elements()));
      memory_->Read(RangeOf(tensor), values.data());
      results.insert(results.end(), values.begin(), values.end());
    }
    return results;
  }

  Executor& executor() { return *executor_; }
  DeviceMemory& memory() { return *memory_; }
  const memory::MemoryPlan& plan() const { return plan_; }
  MemoryRange RangeOf(std::string_view name) const {
    return RangeOf(program_.tensor(program_.Require(name)));
  }

 private:
  MemoryRange RangeOf(const Tensor& tensor) const {
    const auto id = static_cast<TensorId>(&tensor - program_.tensors().data());
    return {tensor.place, plan_.programs[0].layout.offset(id), tensor.bytes()};
  }

  Program program_;
  memory::MemoryPlan plan_;
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<Executor> executor_;
  std::vector<std::pair<MemoryRange, std::vector<float>>> slots_;
};

class CudaExecutorTest : public testing::Test {
 protected:
  void SetUp() override {
    PLIMSOLL_NEEDS_CUDA
    device_ = MakeCudaDevice(pool_);
  }

  ThreadPool pool_{2};
  std::unique_ptr<Device> device_;
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_F(CudaExecutorTest, EveryWayToRunGivesTheSameBits) {
  const std::unique_ptr<Device> cpu = MakeCpuDevice(pool_);
  int used_as_planned = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    RandomProgramOptions random;
    random.nodes = 10 + static_cast<int>(seed);
    random.host_tensors = seed % 3 == 0;
    const Program program = RandomProgram(seed, random);

    Bench expected(*cpu, program);
    Bench graph(*device_, program);
    Bench eager(*device_, program, {.launch = Launch::kAwaited});
    Bench poisoned(*device_, program, {.poison = true});
    Bench checked(*device_, program,
                  {.poison = true, .check_arena = true, .profile = true, .check_finite = true});
    for (int run = 0; run < 3; ++run) {
      for (Bench* bench : {&expected, &graph, &eager, &poisoned, &checked}) bench->Run();
      const std::vector<float> results = graph.Results(), on_cpu = expected.Results();
      ASSERT_TRUE(SameBits(eager.Results(), results));
      ASSERT_TRUE(SameBits(poisoned.Results(), results));
      ASSERT_TRUE(SameBits(checked.Results(), results));
      ASSERT_EQ(results.size(), on_cpu.size());
      for (size_t i = 0; i < results.size(); ++i) ASSERT_NEAR(results[i], on_cpu[i], 1e-4) << i;
    }
    // Less than the planned bytes only if a slot that no node writes has the highest offset.
    const int64_t planned =
        checked.plan().persistent_bytes + checked.plan().programs[0].temporary_bytes;
    EXPECT_LE(checked.executor().used_bytes(), planned);
    used_as_planned += checked.executor().used_bytes() == planned;
    EXPECT_EQ(graph.executor().runs(), 3);
    int64_t nanoseconds = 0;
    for (int64_t of_node : checked.executor().node_nanoseconds()) nanoseconds += of_node;
    EXPECT_GT(nanoseconds, 0);
  }
  EXPECT_GE(used_as_planned, 36);
}

// w.i ← update(w.i, x): all independent, except the last, which reads the first one's result.
TEST_F(CudaExecutorTest, IndependentNeighboursGoInOneLaunch) {
  Program program("update");
  Builder g(program);
  const Value x = g.Emit1("test_source", {}, {{"n", int64_t{50}}, {"seed", int64_t{3}}});
  std::vector<Value> w;
  for (int i = 0; i < 40; ++i) {
    w.push_back(g.Persistent("w." + std::to_string(i), Role::kParameter, Float32(100 + i)));
  }
  for (Value p : w) g.EmitInto({p}, "test_update", {p, x});
  g.EmitInto({w[1]}, "test_update", {w[1], w[0]});
  const memory::MemoryPlan plan = PlanOf(program, DeviceKind::kCuda);

  gpu::Libraries libraries;
  CudaStreams streams;
  CudaBuffer arena(CudaBuffer::Kind::kDevice, plan.arena_bytes, "test");
  CudaExecutor executor(program, plan.programs[0].layout, {arena.data(), nullptr}, streams,
                        libraries, {});
  EXPECT_EQ(executor.launches(), 3);

  const std::unique_ptr<Device> cpu = MakeCpuDevice(pool_);
  Bench expected(*cpu, program), grouped(*device_, program);
  expected.Run();
  grouped.Run();
  const std::vector<float> a = grouped.Results(), b = expected.Results();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5) << i;
}

// Large tensors are copied to the host and back during work on others, which reuses their memory in
// the meantime.
TEST_F(CudaExecutorTest, CopiesOverlapAndArriveWhole) {
  constexpr int64_t kElements = int64_t{4} << 20;
  Program program("offload");
  Builder g(program);
  std::vector<Value> hosts, sources;
  const auto source = [&](int64_t seed) {
    return g.Emit1("test_source", {}, {{"n", kElements}, {"seed", seed}});
  };
  for (int i = 0; i < 4; ++i) {
    const Value x = source(i);
    const Value there = ops::CopyStart(g, x, Place::kHost, "there." + std::to_string(i));
    Value busy = source(100 + i);
    for (int k = 0; k < 4; ++k) busy = g.Emit1("test_unary", {busy});
    hosts.push_back(ops::CopyDone(g, there, x, "away." + std::to_string(i)));
    program.mutable_tensor(hosts.back()).place = Place::kHost;
    sources.push_back(busy);
  }
  Value sum = source(1000);
  for (int i = 0; i < 4; ++i) {
    const Value back = ops::CopyStart(g, hosts[i], Place::kDevice, "back." + std::to_string(i));
    sum = g.Emit1("test_binary", {sum, sources[i]});
    const Value here = ops::CopyDone(g, back, hosts[i], "here." + std::to_string(i));
    sum = g.Emit1("test_binary", {sum, here});
  }
  const Value metric = g.Emit("test_mix", {sum}, {{"n", int64_t{1024}}}, "", {true, false})[0];
  program.Rename(metric, "metric");
  program.mutable_tensor(metric).role = Role::kMetric;

  const std::unique_ptr<Device> cpu = MakeCpuDevice(pool_);
  Bench expected(*cpu, program), graph(*device_, program),
      profiled(*device_, program, {.profile = true}), poisoned(*device_, program, {.poison = true});
  EXPECT_GT(graph.plan().host_arena_bytes, 4 * 4 * kElements - 1);
  for (int run = 0; run < 3; ++run) {
    for (Bench* bench : {&expected, &graph, &profiled, &poisoned}) bench->Run();
    const std::vector<float> results = graph.Results(), on_cpu = expected.Results();
    ASSERT_TRUE(SameBits(profiled.Results(), results));
    ASSERT_TRUE(SameBits(poisoned.Results(), results));
    for (size_t i = 0; i < results.size(); ++i) ASSERT_NEAR(results[i], on_cpu[i], 1e-3) << i;
  }
  bool to_host = false, to_device = false;
  for (const NodeTime& time : profiled.executor().node_times()) {
    EXPECT_GE(time.end_us, time.start_us);
    to_host |= time.stream == 1 && time.end_us - time.start_us > 50;
    to_device |= time.stream == 2 && time.end_us - time.start_us > 50;
  }
  EXPECT_TRUE(to_host && to_device);
}

// A snapshot of p.0 and p.1 stands between its two groups until the host opens a gate. Meanwhile a
// step changes p.0, which is copied, and waits before it changes p.1.
TEST_F(CudaExecutorTest, AStepWaitsOnlyForTheCopyOfWhatItChanges) {
  constexpr int64_t kElements = 100'000;
  const std::string numbers[] = {"0", "1"};
  const auto persistent = [&](Builder& g, const std::string& name, Role role, Place place) {
    const Value tensor = g.Persistent(name, role, Float32(kElements));
    g.program().mutable_tensor(tensor).place = place;
    return tensor;
  };
  const auto copy = [&](Builder& g, Value from, const std::string& name, Role role) {
    const Value to = persistent(g, name, role, Place::kHost);
    g.EmitInto({to}, "copy_start", {from});
    ops::CopyDone(g, to, from, name + ".done");
  };

  Program snapshot("snapshot"), step("train");
  {
    Builder g(snapshot);
    for (const std::string& n : numbers) {
      const Value p = persistent(g, "p." + n, Role::kParameter, Place::kDevice);
      copy(g, p, "p." + n + ".snapshot", Role::kSnapshot);
      if (n == "0") g.Emit1("test_gate", {persistent(g, "gate", Role::kMetric, Place::kHost)});
    }
  }
  {
    Builder g(step);
    const Value x = g.Emit1("test_source", {}, {{"n", int64_t{50}}, {"seed", int64_t{3}}});
    for (const std::string& n : numbers) {
      const Value p = persistent(g, "p." + n, Role::kParameter, Place::kDevice);
      g.EmitInto({p}, "test_update", {p, x});
      copy(g, p, "p." + n + ".changed", Role::kMetric);
    }
  }
  const Program* programs[] = {&step, &snapshot};
  const memory::MemoryPlan plan =
      memory::MakePlan(programs, {.alignment = TensorAlignment(DeviceKind::kCuda)});
  const auto range = [&](const std::string& name) {
    for (size_t p = 0; p < 2; ++p) {
      const TensorId id = programs[p]->Find(name);
      if (id == graph::kNoTensor) continue;
      const Tensor& tensor = programs[p]->tensor(id);
      return MemoryRange{tensor.place, plan.programs[p].layout.offset(id), tensor.bytes()};
    }
    throw InternalError("no tensor " + name);
  };
  const std::unique_ptr<DeviceMemory> memory =
      device_->Allocate(plan.arena_bytes, plan.host_arena_bytes);
  const DeviceMemory::BoundProgram bound[] = {
      {.program = &step, .layout = &plan.programs[0].layout},
      {.program = &snapshot, .layout = &plan.programs[1].layout, .concurrent = true}};
  const std::vector<std::unique_ptr<Executor>> executors = memory->MakeExecutors(bound, {});
  const auto on_host = [&](const std::string& name) {
    return reinterpret_cast<volatile float*>(memory->Address(range(name)));
  };

  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    std::vector<float> before(kElements, 1.0f + static_cast<float>(round));
    for (const std::string& n : numbers) {
      memory->Write(range("p." + n), before.data());
      const std::vector<float> none(kElements, 0.0f);
      memory->Write(range("p." + n + ".changed"), none.data());
      memory->Write(range("p." + n + ".snapshot"), none.data());
    }
    device_->Synchronize();
    *on_host("gate") = 1;
    executors[1]->Run();
    executors[0]->Run();
    const auto changed = [&](const std::string& n) {
      const volatile float* values = on_host("p." + n + ".changed");
      return values[kElements - 1] != 0;
    };
    const auto start = std::chrono::steady_clock::now();
    while (!changed("0") && std::chrono::steady_clock::now() - start < std::chrono::seconds(20)) {
      std::this_thread::yield();
    }
    const bool early = changed("0");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const bool late = changed("1"), copied = *on_host("p.1.snapshot") != 0;
    *on_host("gate") = 0;  // nothing hangs when an expectation fails
    EXPECT_TRUE(early);
    EXPECT_FALSE(late);
    EXPECT_FALSE(copied);
    executors[1]->Await();
    for (const std::string& n : numbers) {
      EXPECT_EQ(*on_host("p." + n + ".snapshot"), before.front());
      EXPECT_EQ(on_host("p." + n + ".snapshot")[kElements - 1], before.back());
    }
    device_->Synchronize();
    EXPECT_TRUE(changed("1"));
    executors[0]->Run();  // a step without a snapshot waits for nothing
    device_->Synchronize();
    EXPECT_NE(*on_host("p.1.changed"), before.front());
  }
}

TEST_F(CudaExecutorTest, WritesAndReadsKeepTheirOrderWithRuns) {
  constexpr int64_t kElements = 3'000'000;  // more than one chunk of an upload
  Program program("order");
  Builder g(program);
  const Value p = g.Persistent("p", Role::kParameter, Float32(kElements));
  const Value x = g.Persistent("x", Role::kParameter, Float32(1));
  g.EmitInto({p}, "test_update", {p, x});
  Bench bench(*device_, program);
  const std::unique_ptr<Readback> readback = bench.memory().MakeReadback(
      {bench.memory().Bytes({Place::kDevice, bench.RangeOf("p").offset, 20}),
       bench.memory().Bytes(bench.RangeOf("x"))});
  for (int round = 0; round < 20; ++round) {
    const std::vector<float> values(kElements, static_cast<float>(round));
    const float one = 1.0f;
    bench.memory().Write(bench.RangeOf("p"), values.data());
    bench.memory().Write(bench.RangeOf("x"), &one);
    bench.Run();
    readback->Start();
    const float two = 2.0f;
    bench.memory().Write(bench.RangeOf("x"), &two);
    bench.Run();
    const float first = 0.875f * static_cast<float>(round) + 0.125f;
    const auto* read = reinterpret_cast<const float*>(readback->Wait());
    ASSERT_NEAR(read[4], first, 1e-6);
    ASSERT_EQ(read[8], 1.0f);  // the second range starts at 32
    std::vector<float> results(kElements);
    bench.memory().Read(bench.RangeOf("p"), results.data());
    ASSERT_NEAR(results.back(), 0.875f * first + 0.25f, 1e-5);
  }
}

// A large input comes while the run before still works, but not before it has been read there.
TEST_F(CudaExecutorTest, InputsArriveBesideTheRunThatHasReadTheOnesBefore) {
  constexpr int64_t kElements = 3'000'000;
  Program program("inputs");
  Builder g(program);
  const Value p = g.Persistent("p", Role::kParameter, Float32(kElements));
  const Value q = g.Persistent("q", Role::kParameter, Float32(kElements));
  const Value one = g.Persistent("one", Role::kParameter, Float32(1));
  const Value x = g.Persistent("x", Role::kInput, Float32(kElements));
  const auto work = [&] {
    for (int i = 0; i < 40; ++i) g.EmitInto({q}, "test_update", {q, one});
  };
  work();
  g.EmitInto({p}, "test_update", {p, x});
  work();
  for (const ExecutorOptions& options :
       {ExecutorOptions{}, ExecutorOptions{.launch = Launch::kAwaited},
        ExecutorOptions{.profile = true}, ExecutorOptions{.check_arena = true}}) {
    Bench bench(*device_, program, options);
    std::vector<float> values(kElements, 0.0f);
    bench.memory().Write(bench.RangeOf("p"), values.data());
    float expected = 0;
    for (int round = 1; round <= 12; ++round) {
      std::ranges::fill(values, static_cast<float>(round));
      bench.memory().Write(bench.RangeOf("x"), values.data());
      bench.executor().Run();
      expected = 0.875f * expected + 0.125f * static_cast<float>(round);
    }
    bench.memory().Read(bench.RangeOf("p"), values.data());
    const auto [least, most] = std::ranges::minmax(values);
    ASSERT_NEAR(least, expected, 1e-4);
    ASSERT_NEAR(most, expected, 1e-4);
    // What was written last is read back, though no run has waited for it.
    std::ranges::fill(values, -1.0f);
    bench.memory().Write(bench.RangeOf("x"), values.data());
    values.assign(kElements, 0.0f);
    bench.memory().Read(bench.RangeOf("x"), values.data());
    ASSERT_EQ(std::ranges::max(values), -1.0f);
  }
}

// Inputs, large and small, are copied from where the host has prepared them. A place that is filled
// anew too early, or read too late, gives other numbers.
TEST_F(CudaExecutorTest, InputsAreCopiedFromPlaces) {
  constexpr int64_t kElements = 3'000'000, kFew = 100, kFewAt = 4 * kElements;
  Program program("inputs");
  Builder g(program);
  const Value p = g.Persistent("p", Role::kParameter, Float32(kElements));
  const Value q = g.Persistent("q", Role::kParameter, Float32(kFew));
  const Value x = g.Persistent("x", Role::kInput, Float32(kElements));
  const Value y = g.Persistent("y", Role::kInput, Float32(kFew));
  g.EmitInto({q}, "test_update", {q, y});
  g.EmitInto({p}, "test_update", {p, x});
  for (const ExecutorOptions& options :
       {ExecutorOptions{}, ExecutorOptions{.launch = Launch::kAwaited},
        ExecutorOptions{.check_arena = true}}) {
    for (const int places : {1, 2, 3}) {
      Bench bench(*device_, program, options);
      const std::vector<float> zeros(kElements, 0.0f);
      bench.memory().Write(bench.RangeOf("p"), zeros.data());
      bench.memory().Write(bench.RangeOf("q"), zeros.data());
      const std::unique_ptr<InputMemory> inputs =
          bench.memory().MakeInputMemory(places, kFewAt + 4 * kFew);
      ASSERT_EQ(inputs->places(), places);
      float expected = 0;
      for (int round = 1; round <= 20; ++round) {
        const int at = round % places;
        // Another thread waits for the place and fills it.
        std::thread([&] {
          inputs->Await(at);
          const std::span<std::byte> place = inputs->place(at);
          auto* const values = reinterpret_cast<float*>(place.data());
          std::fill(values, values + kElements + kFew, static_cast<float>(round));
        }).join();
        const std::byte* const from = inputs->place(at).data();
        inputs->Write(at, bench.memory().Bytes(bench.RangeOf("x")), from);
        inputs->Write(at, bench.memory().Bytes(bench.RangeOf("y")), from + kFewAt);
        bench.executor().Run();
        expected = 0.875f * expected + 0.125f * static_cast<float>(round);
      }
      std::vector<float> values(kElements), few(kFew);
      bench.memory().Read(bench.RangeOf("p"), values.data());
      bench.memory().Read(bench.RangeOf("q"), few.data());
      for (const std::vector<float>& read : {values, few}) {
        const auto [least, most] = std::ranges::minmax(read);
        ASSERT_NEAR(least, expected, 1e-4);
        ASSERT_NEAR(most, expected, 1e-4);
      }
      EXPECT_GT(bench.memory().copy_seconds(), 0);  // of what Write has handed in
    }
  }
}

// A refusal is told as such, and no later call finds CUDA's error.
TEST_F(CudaExecutorTest, PlacesThatCannotBePinnedAreRefused) {
  const std::unique_ptr<DeviceMemory> memory = device_->Allocate(1024, 0);
  ExpectUserError([&] { memory->MakeInputMemory(4, int64_t{1} << 48); },
                  {"memory.host_budget", "refuses pinned memory for prepared batches", "1.00 PiB"});
  const std::vector<float> values(64, 2.0f);
  memory->Write({Place::kDevice, 0, 256}, values.data());
  device_->Synchronize();
  EXPECT_NE(memory->MakeInputMemory(2, 1 << 20), nullptr);
}

// A program of one source and one other op.
Program Two(const std::string& op, const graph::Attributes& attributes = {}) {
  Program program("train");
  Builder g(program);
  g.set_scope("block.2.mlp");
  g.Emit1("test_source", {}, {{"n", int64_t{10}}, {"seed", int64_t{1}}}, "a");
  g.Emit1(op, {0}, attributes, "b");
  return program;
}

TEST_F(CudaExecutorTest, FailuresNameTheNode) {
  ExpectInternalError([&] { Bench bench(*device_, Two("test_fail")); },
                      {"program 'train'", "node 1", "test_fail", "block.2.mlp", "a f32[10]",
                       "b f32[10]", "the kernel gives up"});
}

TEST_F(CudaExecutorTest, InstrumentsFindWhatIsWrong) {
  ExpectUserError(
      [&] {
        Bench bench(*device_, Two("test_nan"), {.check_finite = true});
        bench.Run();
      },
      {"debug.find_nan", "node 1", "test_nan", "b' is not finite at element 0"});
  ExpectInternalError(
      [&] {
        Bench bench(*device_, Two("test_stray", {{"beyond", int64_t{3}}}), {.check_arena = true});
        bench.Run();
      },
      {"belongs to none of its tensors"});
  // Only requested measurements are made.
  Bench plain(*device_, Two("test_unary"));
  plain.Run();
  ExpectInternalError([&] { plain.executor().used_bytes(); }, {"check_arena"});
}

// The trial run of a program that copies to the host leaves no byte there.
TEST_F(CudaExecutorTest, BothArenasAreZeroBeforeTheFirstRun) {
  constexpr int64_t kElements = 100'000;
  for (const bool poison : {false, true}) {
    SCOPED_TRACE(poison);
    Program program("train");
    Builder g(program);
    const Value x = g.Persistent("p", Role::kParameter, Float32(kElements));
    const Value there = g.Persistent("p.there", Role::kSnapshot, Float32(kElements));
    program.mutable_tensor(there).place = Place::kHost;
    g.EmitInto({there}, "copy_start", {x});
    ops::CopyDone(g, there, x, "there.done");
    const memory::MemoryPlan plan = PlanOf(program, DeviceKind::kCuda);
    const std::unique_ptr<DeviceMemory> memory =
        device_->Allocate(plan.arena_bytes, plan.host_arena_bytes);
    const DeviceMemory::BoundProgram bound{&program, &plan.programs[0].layout};
    const auto executors = memory->MakeExecutors({&bound, 1}, {.poison = poison});
    const auto nonzero = [&](Place place) {
      std::vector<char> bytes(static_cast<size_t>(memory->bytes(place)), 1);
      EXPECT_GE(bytes.size(), 4u * kElements);
      memory->Read({place, 0, memory->bytes(place)}, bytes.data());
      return std::ranges::count_if(bytes, [](char byte) { return byte != 0; });
    };
    EXPECT_EQ(nonzero(Place::kDevice), 0);
    EXPECT_EQ(nonzero(Place::kHost), 0);
    // A run does copy.
    const std::vector<float> ones(kElements, 1.0f);
    const int64_t offset = plan.programs[0].layout.offset(program.Find("p"));
    memory->Write({Place::kDevice, offset, 4 * kElements}, ones.data());
    executors[0]->Run();
    executors[0]->Await();
    EXPECT_GE(nonzero(Place::kHost), kElements);
  }
}

TEST_F(CudaExecutorTest, TooMuchMemoryIsRefusedWithTheBytes) {
  ExpectUserError([&] { device_->Allocate(int64_t{1} << 50, 0); },
                  {"device: ", "1.00 PiB", "nvidia-smi", "memory.budget"});
  ExpectUserError([&] { device_->Allocate(0, int64_t{1} << 50); },
                  {"memory.host_budget", "the system refuses", "1.00 PiB"});
}

}  // namespace
}  // namespace plimsoll::runtime
