#include "docs/examples/drop_unit_scales.h"

#include "tests/graph/expect_program.h"

namespace plimsoll::graph {
namespace {

TEST(DropUnitScales, ReadersReadWhatWasScaled) {
  Program program = Parse(R"(program p
  tensor %x: f32[4] input persistent
forward
  %a: f32[4] = gelu(%x) {approximate="none"}
  %b: f32[4] = scale(%a) {factor=1.0}
  %c: f32[4] = scale(%b) {factor=2.0}
  %y: f32[4] metric = add(%b, %c)
)");
  DropUnitScales pass;
  const PassResult result = pass.Run(program);
  EXPECT_TRUE(result.changed);
  EXPECT_EQ(result.summary, "1 node removed");
  ExpectProgram(program, R"(program p
  tensor %x: f32[4] input persistent
forward
  %a: f32[4] = gelu(%x) {approximate="none"}
  %c: f32[4] = scale(%a) {factor=2.0}
  %y: f32[4] metric = add(%a, %c)
)");
}

TEST(DropUnitScales, LeavesWhatOutlivesTheProgram) {
  constexpr std::string_view kText = R"(program p
  tensor %x: f32[4] input persistent
  tensor %y: f32[4] state persistent
forward
  %y = scale(%x) {factor=1.0}
)";
  Program program = Parse(kText);
  EXPECT_FALSE(DropUnitScales().Run(program).changed);
  ExpectProgram(program, kText);
}

}  // namespace
}  // namespace plimsoll::graph
