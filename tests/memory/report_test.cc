#include "memory/report.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "graph/builder.h"
#include "tests/runtime/test_ops.h"
#include "tests/support/expect_error.h"

namespace plimsoll::memory {
namespace {

using graph::Builder;
using graph::Program;
using graph::Role;
using graph::Value;

TEST(Report, SaysWhereTheMemoryGoes) {
  Program p("train");
  Builder g(p);
  const Value w = g.Persistent("block.0.fc.weight", Role::kParameter, Float32(1024));
  g.Persistent("block.0.fc.weight.m", Role::kOptimizerState, Float32(2048));
  g.set_scope("block.0.fc");
  const Value a = g.Emit("test_mix", {w}, {{"n", int64_t{512}}}, "", {true, false})[0];
  g.set_scope("block.1.fc");
  const Value b = g.Emit("test_mix", {a}, {{"n", int64_t{256}}}, "", {true, false})[0];
  g.set_scope("head");
  g.Emit("test_mix", {b}, {{"n", int64_t{1}}}, "", {true, false});
  const Program* programs[] = {&p};
  const MemoryPlan plan = MakePlan(programs);

  const std::string text = Report(plan);
  ExpectText(text, {"parameters                             4.00 KiB   26.7 %",
                    "optimizer state                        8.00 KiB   53.3 %",
                    "activations                            3.00 KiB   20.0 %",
                    "arena                                  15.0 KiB  100.0 %",
                    "fragmentation                            0.00 %",
                    "program 'train', node 1 of 3: test_mix in block.1.fc, forward",
                    "block.*.fc                             3.00 KiB  100.0 %",
                    "block.0.fc.test_mix                    2.00 KiB  f32[512] activation",
                    "8.00 KiB  f32[2048] optimizer_state, persistent"});
  EXPECT_EQ(text.find("workspace"), std::string::npos) << text;

  EXPECT_EQ(Summary(plan),
            "arena 15.0 KiB (max live 15.0 KiB, fragmentation 0.00 %), peak in program 'train', "
            "node 1 of 3: test_mix in block.1.fc, forward");
}

TEST(Report, EmptyPlan) {
  const MemoryPlan plan = MakePlan({});
  ExpectText(Report(plan), {"0 B"});
  ExpectText(Summary(plan), {"arena 0 B"});
}

TEST(FormatBytes, ThreeDigits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(512), "512 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.00 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.50 KiB");
  EXPECT_EQ(FormatBytes(10 * 1024 - 1), "10.0 KiB");
  EXPECT_EQ(FormatBytes(100 * 1024 - 1), "100 KiB");
  EXPECT_EQ(FormatBytes(1024 * 1024 - 1), "1.00 MiB");
  EXPECT_EQ(FormatBytes(int64_t{1320702444}), "1.23 GiB");
  EXPECT_EQ(FormatBytes(-2048), "-2.00 KiB");
  EXPECT_EQ(FormatBytes(INT64_MAX), "8.00 EiB");
}

}  // namespace
}  // namespace plimsoll::memory
