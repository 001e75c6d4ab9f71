// Differences, spreads and laws.
#include "studies/compare.h"

#include <gtest/gtest.h>

#include "studies/table.h"
#include "tests/support/expect_error.h"

namespace plimsoll::studies {
namespace {

Row Measured(const std::string& name, std::vector<double> step_ms, double bytes,
             std::vector<double> losses = {3, 2, 1}) {
  Row row;
  row.name = name;
  row.status = Status::kDone;
  row.runs = 1;
  row.medians = {step_ms[step_ms.size() / 2]};
  row.step_ms = std::move(step_ms);
  row.losses = {std::move(losses)};
  row.summary = {{"arena_bytes", bytes}, {"tokens_per_step", 1000}};
  return row;
}

TEST(Compare, DifferencesWithinTheSpreadAreNone) {
  const std::vector<Row> rows = {Measured("base", {99, 100, 101, 102, 103}, 10),
                                 Measured("same", {100, 101, 102, 103, 104}, 9),
                                 Measured("faster", {49, 50, 51, 52, 53}, 9),
                                 Measured("slower", {199, 200, 201, 202, 203}, 9)};
  const auto comparisons = Compare(rows, {}, 0);
  EXPECT_FALSE(comparisons[0].speedup);
  EXPECT_EQ(comparisons[1].time, Difference::kNone);
  EXPECT_EQ(comparisons[2].time, Difference::kFaster);
  EXPECT_EQ(comparisons[3].time, Difference::kSlower);
  EXPECT_DOUBLE_EQ(*comparisons[2].speedup, 101.0 / 51.0);
}

TEST(Compare, TheMediansOfRunsWidenTheSpread) {
  Row base = Measured("base", {100, 100, 100, 110, 110, 110}, 10);
  base.medians = {100, 110};
  Row row = Measured("row", {109, 109, 109, 109, 109, 109}, 10);
  row.medians = {109, 109};
  EXPECT_EQ(SpreadOf(base).low, 100);
  EXPECT_EQ(SpreadOf(base).high, 110);
  EXPECT_EQ(Compare({base, row}, {}, 0)[1].time, Difference::kNone);
}

TEST(Compare, TheFrontIsWhatNoOtherBeats) {
  const auto comparisons = Compare({Measured("fast", {10}, 100), Measured("small", {20}, 50),
                                    Measured("worse", {20}, 100), Measured("also small", {30}, 50)},
                                   {}, 0);
  EXPECT_TRUE(comparisons[0].on_front);
  EXPECT_TRUE(comparisons[1].on_front);
  EXPECT_FALSE(comparisons[2].on_front);
  EXPECT_FALSE(comparisons[3].on_front);
}

TEST(Compare, RowsAreComparedWithTheBaselineOfTheirSeed) {
  const std::vector<Row> rows = {Measured("a1", {10}, 1, {2.0}), Measured("a2", {10}, 1, {2.3}),
                                 Measured("b1", {10}, 1, {2.1}), Measured("b2", {10}, 1, {2.9})};
  const std::vector<RowFacts> facts = {
      {"a1", "a", "1"}, {"a2", "a", "2"}, {"b1", "b", "1"}, {"b2", "b", "2"}};
  const auto comparisons = Compare(rows, facts, 0);
  EXPECT_EQ(comparisons[3].baseline, 1);
  EXPECT_NEAR(*comparisons[3].loss_difference, 0.6, 1e-12);
  EXPECT_TRUE(comparisons[2].loss_within_seeds);  // 0.1, where seeds of `a` differ by 0.3
  EXPECT_TRUE(comparisons[3].loss_within_seeds);  // seeds of `b` differ by 0.8
}

TEST(Laws, FindRowsThatBreakThem) {
  std::vector<Row> rows = {Measured("base", {10}, 100), Measured("block", {12}, 80),
                           Measured("other", {12}, 80, {3, 2, 1.0000001}),
                           Measured("bf16", {12}, 80, {3, 2, 1.1})};
  const std::vector<RowFacts> facts = {{"x"}, {"x"}, {"x"}, {"y"}};
  rows[0].used_bytes = 100;
  rows[1].used_bytes = 81;
  rows[0].losses.push_back({3, 2, 1});
  rows[1].losses.push_back({3, 2, 0.5});
  const auto comparisons = Compare(rows, facts, 0);
  EXPECT_EQ(comparisons[1].same_as, 0);
  EXPECT_TRUE(comparisons[1].same_bits);
  EXPECT_FALSE(comparisons[2].same_bits);
  EXPECT_EQ(comparisons[3].same_as, -1);
  const std::vector<Law> laws = CheckLaws(rows, facts, comparisons);
  EXPECT_EQ(laws[0].checked, 2);
  ASSERT_EQ(laws[0].broken.size(), 1u);
  EXPECT_EQ(laws[0].broken[0], "block: 81 bytes used, 80 predicted");
  EXPECT_EQ(laws[1].checked, 4);
  EXPECT_EQ(laws[1].broken, (std::vector<std::string>{"block: run 2 of it has other losses",
                                                      "other: other losses than base"}));
}

TEST(Laws, AutoIsNoSlowerThanWhatFitsBesideIt) {
  const std::vector<Row> rows = {Measured("auto", {20}, 100), Measured("block", {15}, 90),
                                 Measured("none", {10}, 200)};
  const std::vector<RowFacts> facts = {{"x", "", "", true}, {"x"}, {"x"}};
  const Law law = CheckLaws(rows, facts, Compare(rows, facts, 1))[2];
  EXPECT_EQ(law.checked, 1);
  ASSERT_EQ(law.broken.size(), 1u);
  EXPECT_NE(law.broken[0].find("block"), std::string::npos);
  EXPECT_FALSE(law.must_hold);
}

TEST(Rows, CommandsPrintTheLastLineOfJsonThatCounts) {
  Row row;
  AddOutput("hello\n{\"step_ms\": 1}\n{\"step_ms\": [4, 6, 5], \"loss\": 2.5}\nbye\n", row);
  EXPECT_EQ(row.medians, (std::vector<double>{5}));
  EXPECT_EQ(row.loss(), 2.5);
  Row spread;
  AddOutput("{\"step_ms\": 5, \"step_ms_low\": 4, \"step_ms_high\": 7, \"process_bytes\": 9}\n",
            spread);
  EXPECT_EQ(SpreadOf(spread).low, 4);
  EXPECT_EQ(SpreadOf(spread).median, 5);
  EXPECT_EQ(SpreadOf(spread).high, 7);
  EXPECT_EQ(spread.peak_bytes(), 9);
  for (const char* output :
       {"", "nothing", "{\"loss\": 1}\n", "{\"step_ms\": []}\n", "{\"step_ms\": \"x\"}\n"}) {
    Row none;
    ExpectUserError([&] { AddOutput(output, none); }, {"no line of JSON with step_ms"});
  }
}

TEST(Table, MarksWhatIsNoDifference) {
  const std::vector<Row> rows = {Measured("base", {99, 100, 101}, 10),
                                 Measured("same", {98, 100.5, 102}, 10)};
  const auto comparisons = Compare(rows, {}, 0);
  auto json = nlohmann::ordered_json::array();
  for (size_t i = 0; i < rows.size(); ++i) json.push_back(RowJson(i, rows, comparisons, ""));
  EXPECT_EQ(json[0].at("base"), true);
  EXPECT_EQ(json[1].at("marks").at("speedup"), "no difference");
  const std::string text = TextTable(json, ColumnsOf(json));
  EXPECT_NE(text.find("~0.995"), std::string::npos) << text;
  const std::string csv = Csv(json);
  EXPECT_EQ(csv.substr(0, 11), "name,status");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
}

}  // namespace
}  // namespace plimsoll::studies
