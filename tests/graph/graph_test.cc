// Small parts of graph/: shapes, attributes, the registry, programs.
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/block.h"
#include "graph/builder.h"
#include "tests/support/expect_error.h"

namespace plimsoll::graph {
namespace {

TEST(Shape, CountsElementsAndRows) {
  const Shape shape{4, 8, 16};
  EXPECT_EQ(shape.elements(), 512);
  EXPECT_EQ(shape.rows(), 32);
  EXPECT_EQ(shape.dim(-1), 16);
  EXPECT_EQ(shape.dim(0), 4);
  EXPECT_EQ(shape.WithLast(3).ToString(), "[4,8,3]");
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ(Shape{}.ToString(), "[]");
}

TEST(Shape, RefusesWhatIsNone) {
  EXPECT_THROW(Shape({-1}), InternalError);
  EXPECT_THROW(Shape({1, 1, 1, 1, 1, 1, 1}), InternalError);
  EXPECT_THROW(Shape({int64_t{1} << 40, int64_t{1} << 40}), InternalError);
  EXPECT_THROW(Shape({2}).dim(1), InternalError);
  EXPECT_THROW(Shape().WithLast(1), InternalError);
}

TEST(Attributes, AreSortedAndTyped) {
  Attributes attributes{{"b", 2.5}, {"a", int64_t{3}}, {"c", true}};
  EXPECT_EQ(attributes.entries()[0].first, "a");
  EXPECT_EQ(attributes.GetInt("a"), 3);
  EXPECT_EQ(attributes.GetReal("a"), 3.0);  // an integer is a real
  EXPECT_EQ(attributes.GetReal("b"), 2.5);
  EXPECT_TRUE(attributes.GetBool("c"));
  EXPECT_THROW(attributes.GetInt("b"), InternalError);
  EXPECT_THROW(attributes.GetInt("d"), InternalError);
  attributes.Set("a", int64_t{4});
  EXPECT_EQ(attributes.GetInt("a"), 4);
  EXPECT_EQ(attributes.entries().size(), 3u);
}

TEST(OpRegistry, KnowsNamesOnce) {
  EXPECT_EQ(OpRegistry::Get().Find("nosuch"), nullptr);
  EXPECT_THROW(OpRegistry::Get().Require("nosuch"), InternalError);
  OpDef twice;
  twice.name = "add";
  twice.infer = [](const OpCall&) { return std::vector<TensorType>(); };
  EXPECT_THROW(OpRegistry::Get().Add(twice), InternalError);
}

// Every pass treats an op without declared traits conservatively.
TEST(OpDef, TraitsHaveSafeDefaults) {
  const OpDef op;
  EXPECT_FALSE(op.stops_gradient);
  EXPECT_FALSE(op.converts);
  EXPECT_EQ(op.precision.precision, Precision::kFloat32);
  EXPECT_TRUE(op.precision.reason.empty());
  EXPECT_FALSE(op.precision.tf32);
  EXPECT_EQ(op.cost_class, CostClass::kBandwidth);
  EXPECT_EQ(op.transfer, Transfer::kNone);
  EXPECT_EQ(op.sharding.follows, ShardingRule::kNothing);
  EXPECT_EQ(op.sharding.split_weight, ShardingRule::kRefused);
  EXPECT_TRUE(op.continuation.cached_op.empty());
  EXPECT_EQ(op.continuation.position, -1);
  EXPECT_FALSE(op.cheap_to_recompute);
  EXPECT_TRUE(op.recompute_preset.empty());
  EXPECT_FALSE(op.takes_adapters);
  EXPECT_FALSE(op.shares_launches);
}

TEST(Program, NamesAreUnique) {
  Program program("p");
  Builder g(program);
  const Value x = g.Persistent("x", Role::kInput, {DType::kFloat32, {4}});
  EXPECT_THROW(g.Persistent("x", Role::kInput, {DType::kFloat32, {4}}), InternalError);
  const Value a = g.Emit1("scale", {x}, {{"factor", 1.0}});
  const Value b = g.Emit1("scale", {x}, {{"factor", 1.0}});
  EXPECT_EQ(program.tensor(a).name, "scale");
  EXPECT_EQ(program.tensor(b).name, "scale.2");
  EXPECT_THROW(program.Rename(a, "x"), InternalError);
  program.Rename(a, "y");
  EXPECT_EQ(program.Find("y"), a);
  EXPECT_EQ(program.Find("scale"), kNoTensor);
}

TEST(Program, OwnersAreRenamedWhereTheyAreOwners) {
  Program program;
  Builder g(program);
  const Value w = g.Persistent("w", Role::kParameter, {DType::kFloat32, {2}});
  const Value m = g.Persistent("w.m", Role::kOptimizerState, {DType::kFloat32, {2}},
                               Owner{"w", OwnedAs::kMoment});
  program.Rename(w, "weight");
  program.Rename(m, "q1");
  EXPECT_EQ(program.tensor(m).owner, (Owner{"weight", OwnedAs::kMoment}));
}

TEST(Program, DropUnusedTensorsKeepsWhatIsMentioned) {
  Program program("p");
  Builder g(program);
  const Value x = g.Persistent("x", Role::kInput, {DType::kFloat32, {4}});
  Tensor unused;
  unused.name = "unused";
  program.AddTensor(unused);
  const Value y = g.Emit1("scale", {x}, {{"factor", 1.0}}, "y");
  const Value z =
      g.Emit1("view", {y}, {{"rank", int64_t{2}}, {"d0", int64_t{2}}, {"d1", int64_t{2}}}, "z");
  g.Emit1("scale", {z}, {{"factor", 1.0}}, "w");
  program.DropUnusedTensors();
  EXPECT_EQ(program.Find("unused"), kNoTensor);
  EXPECT_EQ(program.Root(program.Require("z")), program.Require("y"));
  EXPECT_EQ(program.nodes()[2].inputs[0], program.Require("z"));
  EXPECT_EQ(program.nodes()[2].outputs[0], program.Require("w"));
}

TEST(Builder, ScopesNameTensors) {
  Program program("p");
  Builder g(program);
  const Value x = g.Persistent("x", Role::kInput, {DType::kFloat32, {4}});
  Value y;
  {
    Scope block(g, "block.0");
    Scope mlp(g, "mlp");
    y = g.Emit1("scale", {x}, {{"factor", 1.0}}, "half");
  }
  EXPECT_EQ(program.tensor(y).name, "block.0.mlp.half");
  EXPECT_EQ(program.nodes()[0].scope, "block.0.mlp");
  EXPECT_EQ(g.scope(), "");
}

// The metric of a technique that is turned on leaves the keys of later nodes as they are.
TEST(Builder, KeysLeaveUncountedNodesOut) {
  Program program("p");
  Builder g(program);
  const Value x = g.Persistent("x", Role::kInput, {DType::kFloat32, {4}});
  const auto scale = [&] { g.Emit1("scale", {x}, {{"factor", 1.0}}); };
  EXPECT_EQ(g.NextKey(), 0);
  scale();
  {
    const Uncounted outer(g);
    { const Uncounted inner(g); }
    scale();
  }
  EXPECT_EQ(g.NextKey(), 1);
  scale();
  EXPECT_EQ(g.NextKey(), 2);
}

TEST(Builder, RefusesShapesThatDontFit) {
  Program program("p");
  Builder g(program);
  const Value x = g.Persistent("x", Role::kInput, {DType::kFloat32, {4}});
  const Value w = g.Persistent("w", Role::kParameter, {DType::kFloat32, {5}});
  ExpectInternalError([&] { g.Emit1("add", {x, w}); }, {"f32[4] f32[5]"});
  EXPECT_THROW(g.EmitInto({w}, "add", {x, x}), InternalError);
}

TEST(Block, IsToldByScope) {
  EXPECT_EQ(BlockIn("block.0"), "block.0");
  EXPECT_EQ(BlockIn("block.12.attn"), "block.12");
  EXPECT_EQ(BlockIn("encoder.block.3.mlp.block.1"), "encoder.block.3");
  for (const char* outside : {"", "block", "block.", "block.x", "block.3x", "myblock.3", "norm"}) {
    EXPECT_EQ(BlockIn(outside), "") << outside;
  }
  EXPECT_EQ(ParseBlock("encoder.block.12").kind, "encoder.block");
  EXPECT_EQ(ParseBlock("encoder.block.12").number, 12);
}

TEST(Blocks, AreNumberedAsTheProgramComesToThem) {
  Program program("p");
  Builder g(program);
  const Value x = g.Persistent("x", Role::kInput, {DType::kFloat32, {4}});
  for (const char* scope : {"embed", "stage.1.block.0", "stage.1.block.1.attn", "stage.2.block.0",
                            "stage.1.block.1", "head"}) {
    g.set_scope(scope);
    g.Emit1("scale", {x}, {{"factor", 2.0}});
  }
  const Blocks blocks(program);
  std::vector<int> numbers;
  for (size_t n = 0; n < program.nodes().size(); ++n) numbers.push_back(blocks.Of(n));
  EXPECT_EQ(numbers, (std::vector<int>{kNoBlock, 0, 1, 2, 1, kNoBlock}));
  EXPECT_EQ(blocks.name(2), "stage.2.block.0");
}

}  // namespace
}  // namespace plimsoll::graph
