#include "runtime/distinct_calls.h"

#include <gtest/gtest.h>

#include "tests/graph/expect_program.h"

namespace plimsoll::runtime {
namespace {

TEST(DistinctCalls, DifferInOpTypesPlacesAttributesAndNumber) {
  const graph::Program program = graph::Parse(R"(program train
  tensor %a: f32[8] parameter persistent
  tensor %b: f32[8] parameter persistent
  tensor %h: f32[8] parameter persistent host
  tensor %w: f32[4] parameter persistent
forward
  %0: f32[8] = scale(%a) {factor=2}
  %1: f32[8] = scale(%b) {factor=2}
  %2: f32[8] = scale(%a) {factor=3}
  %3: f32[8] = scale(%h) {factor=2}
  %4: f32[4] = scale(%w) {factor=2}
  %5: f32[8] = add(%a, %b)
)");
  DistinctCalls calls;
  const auto add = [&](std::vector<int> nodes) { return calls.Add(program, nodes); };
  EXPECT_TRUE(add({0}));
  EXPECT_FALSE(add({1}));  // another tensor of the same type
  EXPECT_TRUE(add({2}));
  EXPECT_TRUE(add({3}));
  EXPECT_TRUE(add({4}));
  EXPECT_TRUE(add({5}));
  EXPECT_TRUE(add({0, 1}));  // a launch of their own
  EXPECT_FALSE(add({1, 0}));
}

// Layers draw other numbers by the same kernels.
TEST(DistinctCalls, TheRandomKeyMakesNoDifference) {
  const graph::Program program = graph::Parse(R"(program train
  tensor %a: f32[8] parameter persistent
  tensor %rng: i32[2] input persistent
forward
  %0: f32[8] = dropout(%a, %rng) {key=1, p=0.5}
  %1: f32[8] = dropout(%a, %rng) {key=2, p=0.5}
  %2: f32[8] = dropout(%a, %rng) {key=2, p=0.25}
)");
  DistinctCalls calls;
  EXPECT_TRUE(calls.Add(program, std::vector{0}));
  EXPECT_FALSE(calls.Add(program, std::vector{1}));
  EXPECT_TRUE(calls.Add(program, std::vector{2}));
}

}  // namespace
}  // namespace plimsoll::runtime
