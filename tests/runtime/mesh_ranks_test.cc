// Programs with collectives along three axes, one of which no pass uses. Started under mpirun.
#include "runtime/ranks/mesh_ranks.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "base/axes.h"
#include "base/thread_pool.h"
#include "graph/builder.h"
#include "graph/text.h"
#include "graph/verifier.h"
#include "memory/checker.h"
#include "memory/plan.h"
#include "ops/collectives/collective.h"
#include "tests/support/expect_error.h"
#include "tests/support/mpi_test_main.h"

namespace plimsoll::runtime {
namespace {

using graph::Builder;
using graph::Program;
using graph::Role;
using graph::Shape;
using graph::Value;

constexpr int64_t kElements = 4;

MeshAxis ContextAxis(int64_t ranks) { return {.name = "context", .ranks = ranks}; }

graph::TensorType Floats(int64_t n) { return {graph::DType::kFloat32, {n}}; }

// A copy of each rank's x, which a collective may overwrite.
Value Temporary(Builder& g, Value x) { return g.Emit1("scale", {x}, {{"factor", 1.0}}); }

// For every axis: the sum of x, the gathered x, this rank's part of the gathered x, and the
// scattered sum. And the sum of x along one axis after the other.
Program Collectives(const Mesh& mesh) {
  Program program("p");
  Builder g(program);
  const Value x = g.Persistent("x", Role::kInput, Floats(kElements));
  const auto keep = [&](const std::string& name, Value value) {
    const Value kept = g.Persistent(name, Role::kMetric, program.tensor(value).type);
    g.EmitInto({kept}, "scale", {value}, {{"factor", 1.0}});
  };
  Value total = x;
  for (const MeshAxis& axis : mesh.axes()) {
    keep(axis.name + ".sum", ops::AllReduce(g, Temporary(g, x), axis.name, "sum"));
    const Value whole =
        ops::AllGather(g, Temporary(g, x), axis.name, {axis.ranks * kElements}, "whole");
    keep(axis.name + ".whole", whole);
    keep(axis.name + ".own", ops::OwnPart(g, whole, axis.name, {kElements}, "own"));
    keep(axis.name + ".scattered",
         ops::ReduceScatter(g, Temporary(g, whole), axis.name, {kElements}, "scattered"));
    total = ops::AllReduce(g, Temporary(g, total), axis.name, "total");
  }
  keep("all", total);
  graph::Verify(program);
  return program;
}

// Element i of x on a rank.
float Number(int64_t rank, int64_t i) { return static_cast<float>(100 * rank + i); }

// The program as this rank runs it.
class Runner {
 public:
  Runner(const Program& program, const MeshRanks& ranks)
      : program_(program), device_(MakeCpuDevice(pool_)) {
    ops::CheckAxes(program, ranks.mesh());
    const Program* const programs[] = {&program};
    plan_ = memory::MakePlan(programs, {.position = ranks.position()});
    memory::CheckPlan(programs, plan_, {.alignment = 64, .ordered = {}});
    memory_ = device_->Allocate(plan_.arena_bytes, plan_.host_arena_bytes);
    const DeviceMemory::BoundProgram bound[] = {
        {.program = &program, .layout = &plan_.programs[0].layout}};
    executors_ = memory_->MakeExecutors(bound, {.communicators = ranks.communicators()});
  }

  void Write(const std::string& name, const std::vector<float>& values) {
    memory_->Write(RangeOf(name), values.data());
  }
  void Run() { executors_[0]->Run(); }
  std::vector<float> Read(const std::string& name) {
    const MemoryRange range = RangeOf(name);
    std::vector<float> values(static_cast<size_t>(range.bytes) / sizeof(float));
    memory_->Read(range, values.data());
    return values;
  }

 private:
  MemoryRange RangeOf(const std::string& name) const {
    const graph::TensorId id = program_.Require(name);
    return {graph::Place::kDevice, plan_.programs[0].layout.offset(id),
            program_.tensor(id).bytes()};
  }

  const Program& program_;
  ThreadPool pool_{1};
  std::unique_ptr<Device> device_;
  memory::MemoryPlan plan_;
  std::unique_ptr<DeviceMemory> memory_;
  std::vector<std::unique_ptr<Executor>> executors_;
};

void ExpectCollectivesAlongAllAxes(const Mesh& mesh) {
  MeshRanks ranks(TestWorld(), mesh);
  ThreadPool pool(1);
  ranks.Connect(*MakeCpuDevice(pool), 0);
  const int64_t rank = ranks.position().rank;
  for (const MeshAxis& axis : mesh.axes()) {
    const RankGroup* const group = ranks.groups().Of(axis.name);
    const ops::Communicator* const communicator = ranks.communicators().Of(axis.name);
    ASSERT_EQ(group != nullptr, axis.ranks > 1);
    ASSERT_EQ(communicator != nullptr, axis.ranks > 1);
    if (axis.ranks == 1) continue;
    EXPECT_EQ(group->size(), axis.ranks);
    EXPECT_EQ(group->rank(), mesh.Coordinate(rank, axis.name));
    EXPECT_EQ(communicator->size(), axis.ranks);
    EXPECT_EQ(communicator->rank(), group->rank());
  }

  const Program program = Collectives(mesh);
  Runner runner(program, ranks);
  std::vector<float> x;
  for (int64_t i = 0; i < kElements; ++i) x.push_back(Number(rank, i));
  runner.Write("x", x);
  runner.Run();
  for (const MeshAxis& axis : mesh.axes()) {
    SCOPED_TRACE(axis.name);
    std::vector<float> sum(kElements), whole, scattered;
    for (const int64_t other : mesh.GroupOf(rank, axis.name)) {
      for (int64_t i = 0; i < kElements; ++i) {
        sum[static_cast<size_t>(i)] += Number(other, i);
        whole.push_back(Number(other, i));
      }
    }
    for (const float value : x) scattered.push_back(value * static_cast<float>(axis.ranks));
    EXPECT_EQ(runner.Read(axis.name + ".sum"), sum);
    EXPECT_EQ(runner.Read(axis.name + ".whole"), whole);
    EXPECT_EQ(runner.Read(axis.name + ".own"), x);
    EXPECT_EQ(runner.Read(axis.name + ".scattered"), scattered);
  }
  std::vector<float> total(kElements);
  for (int64_t other = 0; other < mesh.size(); ++other) {
    for (int64_t i = 0; i < kElements; ++i) total[static_cast<size_t>(i)] += Number(other, i);
  }
  EXPECT_EQ(runner.Read("all"), total);
}

TEST(MeshRanks, CollectivesRunAlongAnyAxis) {
  const int64_t ranks = TestWorld().size();
  if (ranks % 4 != 0) GTEST_SKIP() << "for mpirun: see the test that starts it";
  ExpectCollectivesAlongAllAxes(Mesh({DataAxis(2), ContextAxis(2), TensorAxis(ranks / 4)}));
  ExpectCollectivesAlongAllAxes(Mesh({DataAxis(1), ContextAxis(ranks / 2), TensorAxis(2)}));
  ExpectCollectivesAlongAllAxes(Mesh({ContextAxis(2), TensorAxis(2), DataAxis(ranks / 4)}));
  ExpectCollectivesAlongAllAxes(Mesh({ContextAxis(ranks)}));
}

TEST(MeshRanks, AnAxisThatIsNotTheMeshsIsRefused) {
  const Mesh mesh({DataAxis(TestWorld().size()), TensorAxis(1)});
  MeshRanks ranks(TestWorld(), mesh);
  ThreadPool pool(1);
  ranks.Connect(*MakeCpuDevice(pool), 0);
  const Program program = graph::ParseProgram(R"(program p
  tensor %x: f32[8] input persistent
forward
  %sum: f32[8] = all_reduce_start(%x) {axis="context"}
)");
  ExpectInternalError([&] { ops::CheckAxes(program, mesh); },
                      {"'p'", "all_reduce_start", "no axis 'context' of ranks"});
  const Program part = graph::ParseProgram(R"(program q
  tensor %w: f32[8] parameter persistent
  tensor %w.own: f32[4] parameter persistent view %w+own(context)
)");
  ExpectInternalError([&] { ops::CheckAxes(part, mesh); },
                      {"'q'", "'w.own'", "no axis 'context' of ranks"});
  ExpectInternalError(
      [&] {
        ops::CommunicatorFor({{"axis", std::string("context")}}, ranks.communicators());
      },
      {"no axis 'context' of ranks"});
}

TEST(MeshRanks, AMeshHasAllRanks) {
  ExpectInternalError([] { MeshRanks(TestWorld(), Mesh({DataAxis(TestWorld().size() + 1)})); },
                      {"are no mesh of"});
}

}  // namespace
}  // namespace plimsoll::runtime
