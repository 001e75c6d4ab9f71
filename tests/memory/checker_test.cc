#include "memory/checker.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>

#include "base/axes.h"
#include "base/error.h"
#include "graph/builder.h"
#include "ops/collectives/collective.h"
#include "runtime/workspaces.h"
#include "tests/runtime/test_ops.h"
#include "tests/support/expect_error.h"

namespace plimsoll::memory {
namespace {

using graph::Attributes;
using graph::Builder;
using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::Role;
using graph::TensorId;
using graph::Value;
using runtime::Layout;

const Attributes kTen = {{"n", int64_t{10}}, {"seed", int64_t{1}}};

// The message of the error; nothing when the layout passes.
std::optional<std::string> Check(const Program& program, const Layout& layout,
                                 const CheckOptions& options = {}) {
  const Program* programs[] = {&program};
  const Layout* layouts[] = {&layout};
  return MessageOf<InternalError>([&] { CheckLayouts(programs, layouts, options); });
}

Layout Offsets(std::vector<int64_t> offsets, int64_t arena = 1024) {
  Layout layout;
  layout.offsets = std::move(offsets);
  layout.arena_bytes = arena;
  return layout;
}

// a = source; b = mix(a); c = mix(b, a)
struct Chain {
  Chain() {
    Builder g(program);
    a = g.Emit1("test_source", {}, kTen, "a");
    b = g.Emit("test_mix", {a}, kTen, "b", {true, false})[0];
    c = g.Emit("test_mix", {b, a}, kTen, "c", {true, false})[0];
  }
  Program program{"chain"};
  Value a, b, c;
};

TEST(Checker, AcceptsDisjointTensors) {
  Chain chain;
  EXPECT_EQ(Check(chain.program, Offsets({0, 64, 128})), std::nullopt);
}

TEST(Checker, NamesBothNodesAndTensorsOfAnOverwrite) {
  Chain chain;
  // c over a is never valid: c's node still reads a. b over a: a is read later.
  ExpectMessage(Check(chain.program, Offsets({0, 128, 0})), {"node 2", "'c'", "'a'"});
  Builder g(chain.program);
  g.Emit("test_mix", {chain.a}, kTen, "d", {true, false});
  // Node 2 writes c over b, which it reads.
  ExpectMessage(Check(chain.program, Offsets({0, 64, 64, 128})), {"node 2", "'c'", "'b'"});
}

TEST(Checker, ReadsOfOverwrittenBytes) {
  Program p("p");
  Builder g(p);
  g.Emit1("test_source", {}, kTen, "a");
  g.Emit1("test_source", {}, kTen, "b");
  g.Emit("test_mix", {0}, kTen, "c", {true, false});
  EXPECT_EQ(Check(p, Offsets({0, 64, 128})), std::nullopt);
  ExpectMessage(Check(p, Offsets({0, 0, 128})), {"node 2", "'a'", "'b'", "node 1"});
}

TEST(Checker, NeverWrittenBytes) {
  Program p("p");
  graph::Tensor tensor;
  tensor.name = "ghost";
  tensor.type = Float32(10);
  const Value ghost = p.AddTensor(tensor);
  Builder(p).Emit("test_mix", {ghost}, kTen, "c", {true, false});
  ExpectMessage(Check(p, Offsets({0, 64})), {"node 0", "'ghost'", "nothing wrote"});
}

TEST(Checker, InPlaceOnlyWhereDeclaredAndExact) {
  Program p("p");
  Builder g(p);
  g.Emit1("test_source", {}, kTen, "a");
  g.Emit1("test_unary", {0}, {}, "b");
  g.Emit("test_mix", {1}, kTen, "c", {true, false});
  EXPECT_EQ(Check(p, Offsets({0, 0, 64})), std::nullopt);
  ExpectMessage(Check(p, Offsets({0, 0, 0})), {"node 2", "'c'", "'b'"});
  CheckOptions bytes;
  bytes.alignment = 4;
  ExpectMessage(Check(p, Offsets({0, 4, 64}), bytes), {"node 1", "'b'", "'a'"});
}

TEST(Checker, PersistentBytesBelongToTheirTensor) {
  Program train("train"), eval("eval");
  Builder t(train);
  t.Persistent("w", Role::kParameter, Float32(10));
  t.Persistent("m", Role::kOptimizerState, Float32(10));
  Builder e(eval);
  e.Persistent("w", Role::kParameter, Float32(10));
  e.Emit("test_mix", {0}, kTen, "y", {true, false});
  const Program* programs[] = {&train, &eval};
  auto check = [&](Layout a, Layout b) {
    const Layout* layouts[] = {&a, &b};
    return MessageOf<InternalError>([&] { CheckLayouts(programs, layouts); });
  };
  EXPECT_EQ(check(Offsets({0, 64}), Offsets({0, 128})), std::nullopt);
  // A temporary over a persistent tensor that its program doesn't even name.
  ExpectMessage(check(Offsets({0, 64}), Offsets({0, 64})), {"eval", "node 0", "'y'", "'m'"});
  ExpectMessage(check(Offsets({0, 64}), Offsets({192, 128})), {"'w'", "train", "eval"});
  ExpectMessage(check(Offsets({0, 0}), Offsets({0, 128})), {"'w'", "'m'"});
  ExpectMessage(check(Offsets({0, 1024}), Offsets({0, 128})), {"'m'", "outside"});
}

TEST(Checker, UpdatesInPlaceAndLaterReads) {
  Program p("p");
  Builder g(p);
  const Value w = g.Persistent("w", Role::kParameter, Float32(10));
  const Value x = g.Emit1("test_source", {}, kTen, "x");
  Node node;
  node.op = &graph::OpRegistry::Get().Require("test_update");
  node.inputs = {w, x};
  node.outputs = {w};
  p.mutable_nodes().push_back(node);
  g.Emit("test_mix", {w}, kTen, "y", {true, false});
  EXPECT_EQ(Check(p, Offsets({0, 64, 128})), std::nullopt);
  // The same tensor as input and output without a declared pair.
  p.mutable_nodes()[1].inputs = {x, w};
  ExpectMessage(Check(p, Offsets({0, 64, 128})), {"node 1", "'w'"});
}

TEST(Checker, WorkspaceOverlapsNothingOfItsNode) {
  Chain chain;
  runtime::AddWorkspaces(chain.program, {.threads = 1});
  EXPECT_EQ(Check(chain.program, Offsets({0, 64, 128, 192, 192})), std::nullopt);
  ExpectMessage(Check(chain.program, Offsets({0, 64, 128, 0, 192})),
                {"node 1", "'a'", "workspace"});
  ExpectMessage(Check(chain.program, Offsets({0, 64, 128, 64, 192})),
                {"node 1", "'b'", "workspace"});
}

TEST(Checker, AliasesLieWithinTheirBase) {
  Program p("p");
  Builder g(p);
  g.Emit1("test_source", {}, kTen, "a");
  g.Emit1("test_view", {0}, {}, "v");
  g.Emit("test_mix", {1}, kTen, "y", {true, false});
  EXPECT_EQ(Check(p, Offsets({0, 0, 64})), std::nullopt);
  ExpectMessage(Check(p, Offsets({0, 128, 64})), {"'v'", "'a'"});
}

// A collective writes the whole around a rank's own part, and around no other tensor.
TEST(Checker, OwnPartsLieWhereTheRankHasThem) {
  Program p("p");
  Builder g(p);
  const Value w = g.Persistent("w", Role::kParameter, Float32(32));
  const Value own = ops::OwnPart(g, w, kDataAxis, {16}, "own");
  g.EmitInto({w}, "all_gather_start", {own},
             {{"axis", std::string("data")}, {"rank", int64_t{1}}, {"d0", int64_t{32}}});
  Layout second = Offsets({0, 64});
  second.position = {Mesh({DataAxis(2)}), 1};
  EXPECT_EQ(Check(p, second), std::nullopt);
  EXPECT_EQ(Check(p, Offsets({0, 0})), std::nullopt);
  ExpectMessage(Check(p, Offsets({0, 64})), {"'own'", "'w'"});
  p.mutable_tensor(own).alias = graph::Alias{w, 64};
  ExpectMessage(Check(p, Offsets({0, 64})), {"node 1", "'w'", "'own'"});
}

TEST(Checker, OutsideTheArenaAndUnaligned) {
  Chain chain;
  ExpectMessage(Check(chain.program, Offsets({0, 64, 128}, 160)), {"node 2", "'c'", "outside"});
  ExpectMessage(Check(chain.program, Offsets({0, -1, 128})), {"'b'", "outside"});
  ExpectMessage(Check(chain.program, Offsets({0, 72, 128})), {"'b'", "aligned"});
}

TEST(Checker, NodesOnOtherStreamsMustBeOrderedByEvents) {
  // 0: a; 1: b = mix(a); 2: c in a's place. Without an edge from 1 to 2 the write may come first.
  Program p("p");
  Builder g(p);
  g.Emit1("test_source", {}, kTen, "a");
  g.Emit("test_mix", {0}, kTen, "b", {true, false});
  g.Emit1("test_source", {}, kTen, "c");
  const Layout layout = Offsets({0, 64, 0});
  EXPECT_EQ(Check(p, layout), std::nullopt);
  CheckOptions streams;
  streams.ordered = [](const Program&, int earlier, int) { return earlier != 1; };
  ExpectMessage(Check(p, layout, streams), {"node 1", "node 2", "not ordered", "'a'", "'c'"});
  EXPECT_EQ(Check(p, Offsets({0, 64, 128}), streams), std::nullopt);
  streams.ordered = [](const Program&, int earlier, int later) {
    return !(earlier == 0 && later == 1);
  };
  ExpectMessage(Check(p, layout, streams), {"node 0", "node 1", "not ordered", "'a'"});
}

// The first node that writes a tensor and the last that reads it, including all aliases.
struct Uses {
  std::vector<int> written, read;
  explicit Uses(const Program& p) : written(p.tensors().size(), -1), read(written) {
    for (int n = 0; n < static_cast<int>(p.nodes().size()); ++n) {
      const Node& node = p.nodes()[n];
      for (TensorId id : node.inputs) {
        if (id != kNoTensor) read[p.Root(id)] = n;
      }
      if (node.op->view) continue;
      for (TensorId id : node.outputs) {
        if (id != kNoTensor && written[p.Root(id)] < 0) written[p.Root(id)] = n;
      }
      if (node.workspace != kNoTensor) written[node.workspace] = n;
    }
  }
};

// Tensors written and read in slices: an overlap may hit a slice that is no longer needed.
bool HasSlices(const Program& p, TensorId id) {
  for (const graph::Tensor& tensor : p.tensors()) {
    if (tensor.alias && tensor.alias->base == id && tensor.bytes() < p.tensor(id).bytes()) {
      return true;
    }
  }
  return false;
}

// Moves tensor `id` and its aliases.
void Move(const Program& p, Layout& layout, TensorId id, int64_t offset) {
  const int64_t by = offset - layout.offsets[id];
  for (TensorId t = 0; t < static_cast<TensorId>(p.tensors().size()); ++t) {
    if (p.Root(t) == id && layout.offsets[t] >= 0) layout.offsets[t] += by;
  }
}

TEST(Checker, CatchesEveryPlantedOverlap) {
  int planted = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Program p = RandomProgram(seed, {.nodes = 30, .largest = 200});
    runtime::AddWorkspaces(p, {.threads = 1});
    const Program* programs[] = {&p};
    PlanOptions options;
    options.search_work = 200'000;
    const MemoryPlan plan = MakePlan(programs, options);
    const Layout& good = plan.programs[0].layout;
    ASSERT_EQ(Check(p, good), std::nullopt);
    const Uses uses(p);
    std::mt19937 random(seed);
    const int count = static_cast<int>(p.tensors().size());
    for (int tries = 0; tries < 400; ++tries) {
      const TensorId kept = p.Root(static_cast<TensorId>(random() % count));
      const TensorId moved = p.Root(static_cast<TensorId>(random() % count));
      if (kept == moved || p.tensor(moved).persistent || uses.written[moved] < 0) continue;
      if (good.offset(kept) < 0 || good.offset(moved) < 0 || HasSlices(p, kept)) continue;
      // `moved` is written while `kept` still holds something that is read afterwards.
      const bool persistent = p.tensor(kept).persistent;
      const bool conflict =
          persistent || (uses.written[kept] >= 0 && uses.written[kept] < uses.written[moved] &&
                         uses.read[kept] > uses.written[moved]);
      if (!conflict) continue;
      Layout bad = good;
      bad.arena_bytes *= 2;  // room, so that only the overlap is caught
      Move(p, bad, moved, good.offset(kept));
      EXPECT_TRUE(Check(p, bad)) << p.tensor(moved).name << " moved onto " << p.tensor(kept).name;
      ++planted;
    }
  }
  EXPECT_GT(planted, 1000);
}

TEST(Checker, CatchesAnArenaThatIsTooSmall) {
  Program p = RandomProgram(3);
  runtime::AddWorkspaces(p, {.threads = 1});
  const Program* programs[] = {&p};
  Layout layout = MakePlan(programs).programs[0].layout;
  EXPECT_EQ(Check(p, layout), std::nullopt);
  layout.arena_bytes -= 64;
  ExpectMessage(Check(p, layout), {"outside"});
}

}  // namespace
}  // namespace plimsoll::memory
