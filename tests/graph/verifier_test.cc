#include "graph/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/graph/expect_program.h"
#include "tests/support/expect_error.h"

namespace plimsoll::graph {
namespace {

using testing::HasSubstr;

std::string ErrorOf(std::string_view body) {
  const auto verify = [&] { Verify(ParseProgram("program p\n" + std::string(body))); };
  return MessageOf<InternalError>(verify).value_or("none");
}

constexpr std::string_view kInput = "  tensor %x: f32[4] input persistent\nforward\n";

std::string WithInput(std::string_view nodes) { return std::string(kInput) + std::string(nodes); }

TEST(Verifier, AcceptsASoundProgram) {
  EXPECT_EQ(ErrorOf(WithInput("  %y: f32[4] = gelu(%x) {approximate=\"tanh\"}\n")), "none");
}

TEST(Verifier, NamesNodeAndTensor) {
  EXPECT_THAT(ErrorOf("  tensor %x: f32[4]\nforward\n  %y: f32[4] = scale(%x) {factor=2.0} @fc\n"),
              HasSubstr("node 0 (scale @fc): reads 'x' before it is written"));
}

TEST(Verifier, FindsASecondWrite) {
  EXPECT_THAT(ErrorOf(WithInput("  %y: f32[4] = scale(%x) {factor=2.0}\n"
                                "  %y = scale(%x) {factor=3.0}\n")),
              HasSubstr("node 1 (scale): writes 'y' a second time"));
}

TEST(Verifier, FindsAWrongType) {
  EXPECT_THAT(ErrorOf(WithInput("  %y: f32[5] = scale(%x) {factor=2.0}\n")),
              HasSubstr("output 'y' is f32[5], the op gives f32[4]"));
}

TEST(Verifier, FindsAMissingArgument) {
  EXPECT_THAT(ErrorOf(WithInput("  %y: f32[4] = add(%x)\n")), HasSubstr("1 inputs, expected 2"));
  EXPECT_THAT(ErrorOf(WithInput("  %y: f32[4] = add(%x, _)\n")), HasSubstr("input 'b' is absent"));
  EXPECT_THAT(ErrorOf(WithInput("  _ = add(%x, %x)\n")), HasSubstr("is absent"));
}

TEST(Verifier, AllowsUpdatesOnlyAtInPlacePairs) {
  EXPECT_EQ(ErrorOf(WithInput("  %x = add(%x, %x)\n")).find("does not allow") == std::string::npos,
            ErrorOf(WithInput("  %x = add(%x, %x)\n")) == "none");
  EXPECT_THAT(ErrorOf("  tensor %w: f32[4,4] parameter persistent\n"
                      "  tensor %x: f32[4,4] input persistent\nforward\n"
                      "  %x = linear(%x, %w)\n"),
              HasSubstr("writes its input 'x', which the op does not allow"));
}

TEST(Verifier, ReadsNoParameterAfterItsUpdate) {
  const std::string program =
      "  tensor %w: f32[4] parameter persistent\n"
      "  tensor %lr: f32[] input persistent\n"
      "backward\n"
      "  %w.grad: f32[4] gradient of %w as gradient = scale(%w) {factor=2.0}\n"
      "update\n"
      "  %w, _, _, _ = sgd(%w, %w.grad, _, %lr) "
      "{momentum=0.0, nesterov=false, weight_decay=0.0}\n";
  EXPECT_EQ(ErrorOf(program), "none");
  EXPECT_EQ(ErrorOf(program + "  %a: f32[4] = scale(%w) {factor=2.0}\n"), "none");
  EXPECT_THAT(ErrorOf(program + "backward\n  %a: f32[4] = scale(%w) {factor=2.0}\n"),
              HasSubstr("reads 'w' after its update"));
}

TEST(Verifier, UncountedNodesDrawNothing) {
  const std::string program =
      "  tensor %x: f32[4] input persistent\n  tensor %rng: i32[2] input persistent\nforward\n"
      "  %y: f32[4] = dropout(%x, %rng) {p=0.5, key=0} @fc";
  EXPECT_EQ(ErrorOf(program + "\n"), "none");
  EXPECT_THAT(ErrorOf(program + " uncounted\n"),
              HasSubstr("node 0 (dropout @fc): an uncounted node draws numbers"));
}

TEST(Verifier, OwnPartsAreEqualParts) {
  Program program = ParseProgram(R"(program p
  tensor %w: f32[8,8] parameter persistent
  tensor %own: f32[16] parameter persistent view %w+own
)");
  EXPECT_NO_THROW(Verify(program));
  program.mutable_tensor(program.Require("own")).type.shape = {24};
  ExpectInternalError([&] { Verify(program); }, {"'own' is no equal part of 'w'"});
}

TEST(Verifier, AliasesLieWithinTheirBase) {
  Program program = ParseProgram(R"(program p
  tensor %w: f32[8,8] parameter persistent
  tensor %half: f32[4,8] parameter persistent view %w+128
)");
  EXPECT_NO_THROW(Verify(program));
  program.mutable_tensor(program.Require("half")).alias->byte_offset = 132;
  ExpectInternalError([&] { Verify(program); }, {"'half' reaches beyond 'w'"});
}

TEST(Verifier, WhatBelongsToAnotherTensorIsCarried) {
  Program program = ParseProgram(R"(program p
  tensor %w: f32[8] parameter persistent
  tensor %m: f32[8] optimizer_state persistent of %w as moment
)");
  EXPECT_NO_THROW(Verify(program));
  Tensor& m = program.mutable_tensor(program.Require("m"));
  m.persistent = false;
  ExpectInternalError([&] { Verify(program); }, {"'m' belongs to 'w', but is not carried"});
  m.persistent = true;
  m.owner->name = "m";
  ExpectInternalError([&] { Verify(program); }, {"'m' belongs to 'm'"});
}

TEST(Verifier, WhatIsMergedIsCarriedAndWhatIsPendingIsMerged) {
  Program program = ParseProgram(R"(program p
  tensor %s: f32[8] state persistent
  tensor %s.pending: f32[8] pending persistent of %s as pending merged last, mean
  tensor %loss: f32[] metric persistent merged sum, sum
)");
  EXPECT_NO_THROW(Verify(program));
  Tensor& pending = program.mutable_tensor(program.Require("s.pending"));
  pending.merge.reset();
  ExpectInternalError([&] { Verify(program); }, {"'s.pending' is pending for 's'"});
  pending.merge = {OverMicroSteps::kLast, OverRanks::kMax};
  ExpectInternalError([&] { Verify(program); }, {"'s.pending' is the maximum over ranks"});
  pending.merge = kSummed;
  program.mutable_tensor(program.Require("loss")).persistent = false;
  ExpectInternalError([&] { Verify(program); }, {"'loss' is merged, but is not carried"});
}

TEST(Verifier, ViewsMustBeAliases) {
  EXPECT_THAT(ErrorOf(WithInput("  %y: f32[2,2] = view(%x) {d0=2, d1=2, rank=2}\n")),
              HasSubstr("view 'y' is no alias"));
}

}  // namespace
}  // namespace plimsoll::graph
