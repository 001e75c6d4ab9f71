#include "graph/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/axes.h"
#include "base/error.h"
#include "graph/builder.h"
#include "tests/support/expect_error.h"

namespace plimsoll::graph {
namespace {

constexpr std::string_view kEverything =
    R"(program every_feature
  tensor %x: f32[2,8] input persistent
  tensor %w: f32[8,8] parameter persistent
  tensor %m: f64[] optimizer_state persistent of %w as variance host
forward
  %fc.y: f32[2,8] = linear(%x, %w, _) @block.0.fc
  %g: f32[2,8] = gelu(%fc.y) {approximate="tanh"} @block.0 using %scratch: i32[16] workspace
  %flat: f32[16] view %g+0 = view(%g) {d0=16, rank=1}
backward
  %d: f32[16] gradient = scale(%flat) {factor=0.1} !autodiff
update
  %e: f32[16] = scale(%d) {factor=1.0} @a/b-c !update
  %f: f32[16] = scale(%e) {factor=1.0} !update uncounted using %room: i32[4] workspace
)";

TEST(ProgramText, PrintsWhatItParsed) { EXPECT_EQ(ToText(ParseProgram(kEverything)), kEverything); }

TEST(ProgramText, KeepsEveryField) {
  const Program program = ParseProgram(kEverything);
  EXPECT_EQ(program.name(), "every_feature");
  const Tensor& m = program.tensor(program.Require("m"));
  EXPECT_EQ(m.type, (TensorType{DType::kFloat64, {}}));
  EXPECT_EQ(m.role, Role::kOptimizerState);
  EXPECT_EQ(m.place, Place::kHost);
  EXPECT_TRUE(m.persistent);
  EXPECT_EQ(m.owner, (Owner{"w", OwnedAs::kVariance}));
  const Tensor& flat = program.tensor(program.Require("flat"));
  EXPECT_EQ(flat.alias, (Alias{program.Require("g"), 0}));
  ASSERT_EQ(program.nodes().size(), 6u);
  EXPECT_EQ(program.nodes()[0].inputs[2], kNoTensor);
  EXPECT_EQ(program.nodes()[0].scope, "block.0.fc");
  EXPECT_EQ(program.nodes()[1].attributes.GetWord("approximate"), "tanh");
  EXPECT_EQ(program.nodes()[1].workspace, program.Require("scratch"));
  EXPECT_EQ(program.nodes()[3].phase, Phase::kBackward);
  EXPECT_EQ(program.nodes()[3].made_by, "autodiff");
  EXPECT_EQ(program.nodes()[3].attributes.GetReal("factor"), 0.1);
  EXPECT_FALSE(program.nodes()[4].uncounted);
  EXPECT_TRUE(program.nodes()[5].uncounted);
}

TEST(ProgramText, KeepsOwnParts) {
  constexpr std::string_view kText = R"(program p
  tensor %w: f32[8,8] parameter persistent
  tensor %w.own: f32[16] parameter persistent view %w+own
  tensor %w.row: f32[8] parameter persistent view %w+own(context)
)";
  const Program program = ParseProgram(kText);
  EXPECT_EQ(ToText(program), kText);
  const Mesh mesh({DataAxis(4), {.name = "context", .ranks = 8}});
  const MeshPosition rank = {mesh, mesh.RankAt({{"data", 3}, {"context", 5}})};
  const Tensor& own = program.tensor(program.Require("w.own"));
  EXPECT_EQ(own.alias, (Alias{program.Require("w"), 0, "data"}));
  EXPECT_EQ(own.alias->OffsetOn(rank, own.bytes()), 3 * 64);
  const Tensor& row = program.tensor(program.Require("w.row"));
  EXPECT_EQ(row.alias, (Alias{program.Require("w"), 0, "context"}));
  EXPECT_EQ(row.alias->OffsetOn(rank, row.bytes()), 5 * 32);
}

TEST(ProgramText, KeepsHowValuesAreMerged) {
  constexpr std::string_view kText = R"(program p
  tensor %s: f32[3] state persistent
  tensor %s.pending: f32[3] pending persistent of %s as pending merged last, first
  tensor %s.history: f32[2,3] state persistent of %s as history names 00c0ffee
  tensor %loss: f32[] metric persistent merged sum, sum
)";
  const Program program = ParseProgram(kText);
  EXPECT_EQ(ToText(program), kText);
  EXPECT_EQ(program.tensor(program.Require("s.pending")).merge,
            (Merge{OverMicroSteps::kLast, OverRanks::kFirst}));
  EXPECT_EQ(program.tensor(program.Require("loss")).merge, kSummed);
  EXPECT_EQ(program.tensor(program.Require("s")).merge, std::nullopt);
}

TEST(ProgramText, RealsComeBackToTheBit) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    double value;
    const uint64_t bits = random();
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value)) continue;
    Program program("p");
    Builder builder(program);
    builder.Persistent("x", Role::kInput, {DType::kFloat32, {2}});
    builder.Emit1("scale", {0}, {{"factor", value}});
    const Program parsed = ParseProgram(ToText(program));
    EXPECT_EQ(parsed.nodes()[0].attributes, program.nodes()[0].attributes);
  }
}

TEST(ProgramText, CommentsAndBlankLinesMeanNothing) {
  const Program program = ParseProgram("// a program\n\nprogram p   // its name\n");
  EXPECT_EQ(program.name(), "p");
}

struct Malformed {
  std::string_view text;
  std::string_view error;
};

TEST(ProgramText, MistakesNameTheLine) {
  const Malformed cases[] = {
      {"", "t:0: no program"},
      {"tensor %x: f32[2]", "t:1: a program starts with 'program NAME'"},
      {"program p\n  tensor x: f32[2]", "t:2: expected '%' before 'x: f32[2]'"},
      {"program p\n  tensor %x: f31[2]", "t:2: unknown dtype 'f31'"},
      {"program p\n  tensor %x: f32[2", "t:2: expected ',' at the end of the line"},
      {"program p\n  tensor %x: f32[-2]", "t:2: impossible shape"},
      {"program p\n  tensor %x: f32[9223372036854775807,2]", "t:2: impossible shape"},
      {"program p\n  tensor %x: f32[0,4611686018427387904,4]", "t:2: impossible shape"},
      {"program p\n  tensor %x: f32[1,1,1,1,1,1,1]", "t:2: impossible shape"},
      {"program p\n  tensor %x: f32[2]\n  tensor %x: f32[2]", "t:3: tensor %x is declared twice"},
      {"program p\n  tensor %m: f32[2] of %w", "t:2: expected what it is to %w"},
      {"program p\n  tensor %m: f32[2] of %w as aunt",
       "t:2: no tensor belongs to another one as 'aunt'"},
      {"program p\n  tensor %x: f32[2] wrong", "t:2: the line does not end where it should"},
      {"program p\n  tensor %x: f32[2] view %y+0", "t:2: view of %y, which is not declared before"},
      {"program p\n  tensor %y: f32[2]\n  tensor %x: f32[2] view %y+4",
       "t:3: view reaches beyond %y"},
      {"program p\nforward\n  %y: f32[2] = nosuch()", "t:3: unknown op 'nosuch'"},
      {"program p\nforward\n  %y: f32[2] = gelu(%x)", "t:3: tensor %x has no type"},
      {"program p\nforward\n  %y: f32[2] = gelu(", "t:3: expected '%' at the end of the line"},
      {"program p\nforward\n  %y: f32[2] = fill() {value=zero}",
       "t:3: expected a value before 'zero}'"},
      {"program p\nforward\n  %y: f32[2] = fill() {value=\"a}", "t:3: a quoted word has no end"},
  };
  for (const Malformed& c : cases) {
    EXPECT_EQ(UserErrorOf([&] { ParseProgram(c.text, "t"); }), c.error) << c.text;
  }
}

}  // namespace
}  // namespace plimsoll::graph
