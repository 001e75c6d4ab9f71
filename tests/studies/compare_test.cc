// Differences, spreads and laws.
#include "studies/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "studies/figures.h"
#include "studies/table.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::studies {
namespace {

using nlohmann::ordered_json;

Run Measured(std::vector<double> step_ms, std::vector<double> losses = {3, 2, 1},
             const std::string& seed = "1") {
  Run run;
  run.seed = seed;
  run.step_ms = std::move(step_ms);
  run.losses = std::move(losses);
  return run;
}

Row Measured(const std::string& name, std::vector<double> step_ms, double bytes,
             std::vector<double> losses = {3, 2, 1}, const std::string& seed = "1") {
  Row row;
  row.name = name;
  row.status = Status::kDone;
  row.runs = {Measured(std::move(step_ms), std::move(losses), seed)};
  row.runs[0].summary = {{"arena_bytes", bytes}, {"tokens_per_step", 1000}};
  return row;
}

// study.json of rows without facts.
ordered_json JsonOf(const std::vector<Row>& rows) {
  return StudyJson({.title = "t", .rows = rows});
}

std::string CsvOf(const ordered_json& study) { return StudyFile("csv", study, {.title = ""}); }

// A member of all comparisons.
template <typename T>
std::vector<T> Each(const std::vector<Comparison>& comparisons, T Comparison::*member) {
  std::vector<T> all;
  for (const Comparison& comparison : comparisons) all.push_back(comparison.*member);
  return all;
}

TEST(Compare, NobodyCanTellTimesWhoseSpreadsOverlap) {
  const std::vector<Row> rows = {Measured("base", {99, 100, 101, 102, 103}, 10),
                                 Measured("same", {100, 101, 102, 103, 104}, 9),
                                 Measured("faster", {49, 50, 51, 52, 53}, 9),
                                 Measured("slower", {199, 200, 201, 202, 203}, 9)};
  const auto comparisons = Compare(rows, {}, 0);
  EXPECT_FALSE(comparisons[0].speedup);
  EXPECT_EQ(Each(comparisons, &Comparison::time),
            (std::vector{Difference::kNone, Difference::kNone, Difference::kFaster,
                         Difference::kSlower}));
  EXPECT_DOUBLE_EQ(*comparisons[2].speedup, 101.0 / 51.0);
  // From the quartiles of both.
  EXPECT_DOUBLE_EQ(comparisons[1].speedups->low, 100.0 / 103.0);
  EXPECT_DOUBLE_EQ(comparisons[1].speedups->high, 102.0 / 101.0);
}

TEST(Compare, TheMediansOfRunsWidenTheSpread) {
  Row base = Measured("base", {100, 100, 100, 100, 100, 100, 100, 100, 100}, 10);
  base.runs.push_back(Measured({110}));
  base.runs.push_back(Measured({110}));
  Row row = Measured("row", {109, 109, 109}, 10);
  row.runs.push_back(Measured({109, 109, 109}));
  EXPECT_EQ(SpreadOf(base).low, 100);
  EXPECT_EQ(SpreadOf(base).high, 110);
  EXPECT_EQ(Compare({base, row}, {}, 0)[1].time, Difference::kNone);
  // One disturbed run among many does not widen the spread.
  for (int i = 0; i < 6; ++i) row.runs.push_back(Measured({109, 109, 109}));
  row.runs.push_back(Measured({200, 200, 200}));
  EXPECT_EQ(SpreadOf(row).high, 109);
  EXPECT_EQ(SpreadOf(row).variation, 0);
}

TEST(Compare, SpeedIsOfTokensWhereStepsHaveDifferentNumbersOfThem) {
  std::vector<Row> rows = {
      Measured("base", {99, 100, 101}, 10), Measured("four times the batch", {198, 200, 202}, 9),
      Measured("twice", {199, 200, 201}, 9), Measured("by its rate", {198, 200, 202}, 9),
      Measured("unknown", {198, 200, 202}, 9)};
  rows[1].runs[0].summary["tokens_per_step"] = 4000;
  rows[2].runs[0].summary["tokens_per_step"] = 2000;
  rows[3].runs[0].summary = {{"tokens_per_s", 20000}};  // 10,000 a second are the baseline's
  rows[4].runs[0].summary = {{"peak_bytes", 5}};
  const auto comparisons = Compare(rows, {}, 0);
  EXPECT_DOUBLE_EQ(*comparisons[1].speedup, 2);
  EXPECT_EQ(comparisons[1].time, Difference::kFaster);
  EXPECT_DOUBLE_EQ(comparisons[1].speedups->low, 99.5 / (201.0 / 4));
  EXPECT_DOUBLE_EQ(comparisons[1].speedups->high, 100.5 / (199.0 / 4));
  EXPECT_DOUBLE_EQ(*comparisons[2].speedup, 1);
  EXPECT_EQ(comparisons[2].time, Difference::kNone);
  EXPECT_DOUBLE_EQ(*comparisons[3].speedup, 2);
  EXPECT_TRUE(comparisons[3].speedup_by_tokens);
  // Its steps are compared, and the table says so.
  EXPECT_DOUBLE_EQ(*comparisons[4].speedup, 0.5);
  EXPECT_FALSE(comparisons[4].speedup_by_tokens);
  const ordered_json json = JsonOf(rows);
  EXPECT_EQ(json.at("rows")[1].at("speedup_by"), "tokens");
  EXPECT_EQ(json.at("rows")[4].at("speedup_by"), "steps");
  EXPECT_NE(StudyText(json).find("speed: of unknown: steps a second"), std::string::npos)
      << StudyText(json);
}

TEST(Figures, ThatCountAreIntegers) {
  const std::vector<Row> rows = {Measured("base", {99, 100, 101}, 12345678)};
  const ordered_json study = JsonOf(rows), &json = study.at("rows");
  EXPECT_EQ(json[0].at("arena_bytes").dump(), "12345678");
  EXPECT_EQ(json[0].at("peak_bytes").dump(), "12345678");
  const std::string csv = CsvOf(study);
  EXPECT_EQ(csv.find("12345678.0"), std::string::npos) << csv;
}

TEST(Compare, TheFrontIsWhatNoOtherBeats) {
  const auto comparisons = Compare({Measured("fast", {10}, 100), Measured("small", {20}, 50),
                                    Measured("worse", {20}, 100), Measured("also small", {30}, 50)},
                                   {}, 0);
  EXPECT_EQ(Each(comparisons, &Comparison::on_front), (std::vector{true, true, false, false}));
}

TEST(Compare, DifferencesAreOfPairsWithTheSameSeed) {
  Row a = Measured("a", {10}, 1, {2.0}, "1"), b = Measured("b", {10}, 1, {2.2}, "1");
  a.runs.push_back(Measured({10}, {4.0}, "2"));
  b.runs.push_back(Measured({10}, {4.1}, "2"));
  b.runs.push_back(Measured({10}, {9.0}, "3"));  // a seed that the baseline lacks
  b.runs.push_back(Measured({10}, {2.2}, "1"));  // a repetition: no further seed
  const auto comparisons = Compare({a, b}, {}, 0);
  ASSERT_TRUE(comparisons[1].loss_difference);
  EXPECT_NEAR(comparisons[1].loss_difference->mean, 0.15, 1e-12);
  EXPECT_NEAR(*comparisons[1].loss_difference->deviation, 0.05 * std::sqrt(2), 1e-12);
  EXPECT_EQ(comparisons[1].loss_difference->count, 2);
  EXPECT_FALSE(comparisons[1].eval_loss_difference);
  EXPECT_EQ(OverSeeds(b, &Run::loss)->count, 3);
  EXPECT_FALSE(OverSeeds(Measured("one", {10}, 1), &Run::loss)->deviation);
}

TEST(Compare, TheBaselinesSeedsMayBeRowsOfTheirOwn) {
  const std::vector<Row> rows = {
      Measured("a1", {10}, 1, {2.0}, "1"), Measured("a2", {10}, 1, {2.3}, "2"),
      Measured("b1", {10}, 1, {2.1}, "1"), Measured("b2", {10}, 1, {2.9}, "2")};
  const std::vector<RowFacts> facts = {{"x", "a"}, {"x", "a"}, {"x", "b"}, {"x", "b"}};
  const auto comparisons = Compare(rows, facts, 0);
  EXPECT_NEAR(comparisons[3].loss_difference->mean, 0.6, 1e-12);
  // The second row has another seed than the first.
  EXPECT_EQ(Each(comparisons, &Comparison::same_as), (std::vector{-1, -1, 0, 1}));
  EXPECT_FALSE(comparisons[3].same_bits);
}

TEST(SharedCurves, AreThoseOfTheLongestRunThatHasTheSameLosses) {
  const std::vector<double> whole = {5, 4, 3, 2};
  std::vector<Row> rows = {Measured("short", {10}, 1, {5, 4}), Measured("whole", {10}, 1, whole),
                           Measured("other", {10}, 1, {5, 4.1}),
                           Measured("seed", {10}, 1, {5, 4}, "2")};
  rows[1].runs[0].evaluations = {{4, 2.5}};
  const std::vector<RowFacts> facts(4, {"x", "x"});
  ShareCurves(facts, 0, rows);
  EXPECT_EQ(rows[0].runs[0].losses, whole);
  EXPECT_EQ(rows[0].runs[0].own_steps, 2);
  EXPECT_EQ(rows[0].runs[0].eval_loss(), 2.5);
  EXPECT_FALSE(rows[1].runs[0].own_steps);
  EXPECT_EQ(rows[2].runs[0].losses.size(), 2u);
  EXPECT_EQ(rows[3].runs[0].losses.size(), 2u);
  const auto comparisons = Compare(rows, facts, 0);
  EXPECT_EQ(comparisons[1].same_steps, 2);
  EXPECT_EQ(comparisons[1].steps, 4);
  EXPECT_TRUE(comparisons[1].same_bits);
  EXPECT_FALSE(comparisons[2].same_bits);
  EXPECT_EQ(CheckLaws(rows, facts, comparisons)[1].broken,
            (std::vector<std::string>{"other: other losses than short"}));
  EXPECT_EQ(SharedSteps(3, 23), 23);
  EXPECT_EQ(SharedSteps(3, 203), 23);
  EXPECT_EQ(SharedSteps(3, 2000), 103);
}

TEST(SharedCurves, AreLongEnoughForAnEnergyThatTheOtherHas) {
  const auto steps = [](double step_ms, ordered_json joules) {
    return SharedSteps(5, 1000, {{"step_ms", step_ms}, {"joules_per_step", std::move(joules)}});
  };
  EXPECT_EQ(steps(50, nullptr), 55);
  EXPECT_EQ(steps(50, 36.0), 85);  // four seconds
  EXPECT_EQ(steps(200, 36.0), 55);
  EXPECT_EQ(steps(1e-3, 36.0), 1000);
  EXPECT_EQ(steps(1e-300, 36.0), 1000);
  EXPECT_EQ(SharedSteps(5, 1000, nullptr), 55);
  EXPECT_EQ(SharedSteps(5, 1000, {{"joules_per_step", 36.0}}), 55);
}

TEST(Laws, FindRowsThatBreakThem) {
  std::vector<Row> rows = {Measured("base", {10}, 100), Measured("block", {12}, 80),
                           Measured("other", {12}, 80, {3, 2, 1.0000001}),
                           Measured("bf16", {12}, 80, {3, 2, 1.1})};
  const std::vector<RowFacts> facts = {{"x"}, {"x"}, {"x"}, {"y"}};
  rows[0].used_bytes = 100;
  rows[1].used_bytes = 81;
  rows[0].runs.push_back(Measured({10}, {3, 2, 1}));
  rows[1].runs.push_back(Measured({12}, {3, 2, 0.5}));
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
  const std::vector<RowFacts> facts = {{"x", "", true}, {"x"}, {"x"}};
  const Law law = CheckLaws(rows, facts, Compare(rows, facts, 1))[2];
  EXPECT_EQ(law.checked, 1);
  ASSERT_EQ(law.broken.size(), 1u);
  EXPECT_NE(law.broken[0].find("block"), std::string::npos);
  EXPECT_FALSE(law.must_hold);
}

TEST(Laws, TimesThatVaryTellNothing) {
  const std::vector<Row> rows = {Measured("auto", {19, 20, 21}, 100),
                                 Measured("block", {15, 15, 15}, 90)};
  const std::vector<RowFacts> facts = {{"x", "", true}, {"x"}};
  const Law law = CheckLaws(rows, facts, Compare(rows, facts, 1))[2];
  EXPECT_EQ(law.checked, 0);
  EXPECT_TRUE(law.broken.empty());
  EXPECT_EQ(law.untold, (std::vector<std::string>{"auto: times vary too much to tell"}));
}

ordered_json Printed(const std::string& output) {
  const TempFolder folder;
  return LastObject(folder.Write("log.txt", output));
}

TEST(CommandOutput, TheLastLineOfJsonCounts) {
  const studies::Run run = RunOf(
      Printed("hello\n{\"step_ms\": 1}\n{\"step_ms\": [4, 6, 5], \"loss\": 2.5}\n{\"a\": 1}\nbye"),
      "1");
  EXPECT_EQ(run.median_ms(), 5);
  EXPECT_EQ(run.loss(), 2.5);
  Row spread;
  spread.runs = {RunOf(Printed("{\"step_ms\": 5, \"step_ms_low\": 4, \"step_ms_high\": 7, "
                               "\"process_bytes\": 9}\n"),
                       "1")};
  EXPECT_EQ(SpreadOf(spread).low, 4);
  EXPECT_EQ(SpreadOf(spread).median, 5);
  EXPECT_EQ(SpreadOf(spread).high, 7);
  EXPECT_EQ(spread.peak_bytes(), 9);
  for (const char* output : {"", "nothing", "{\"loss\": 1}\n", "{\"step_ms\": 1\n"}) {
    ExpectUserError([&] { CheckOutput(Printed(output)); }, {"no line of JSON with step_ms"});
  }
}

TEST(CommandOutput, FiguresThatCannotBeAreRefused) {
  for (const auto& [output, message] : std::map<std::string, std::string>{
           {"{\"step_ms\": -1}", "printed step_ms: -1; it must be a finite number above 0"},
           {"{\"step_ms\": 0}", "step_ms: 0"},
           {"{\"step_ms\": []}", "step_ms: []"},
           {"{\"step_ms\": \"x\"}", "step_ms: \"x\""},
           {"{\"step_ms\": [1, null]}", "step_ms[1]: null"},
           {"{\"step_ms\": [1, -2]}", "step_ms[1]: -2"},
           {"{\"step_ms\": 1, \"process_bytes\": -5}", "process_bytes: -5"},
           {"{\"step_ms\": 1, \"loss\": \"low\"}", "loss: \"low\"; it must be a finite number"}}) {
    ExpectUserError([&] { CheckOutput(Printed(output)); }, {message});
  }
  CheckOutput(Printed("{\"step_ms\": 1, \"loss\": -0.5, \"process_bytes\": null}"));
}

TEST(CommandOutput, OnlyTheTailOfMuchIsKept) {
  const TempFolder folder;
  const std::string line(100, 'x');
  std::string output = "{\"step_ms\": 3}\n" + std::string(2 * kKeptOutput, '{') + "\n";
  while (output.size() < 3 * kKeptOutput) output += line + "\n";
  const std::string path = folder.Write("log.txt", output);
  EXPECT_EQ(LastObject(path).at("step_ms"), 3);
  KeepTail(path);
  const std::string kept = folder.Read("log.txt");
  EXPECT_LE(kept.size(), kKeptOutput + 100);
  EXPECT_TRUE(kept.ends_with(line + "\n"));
  EXPECT_EQ(kept.find("bytes left out\nxxx"), kept.find("bytes"));
}

TEST(Table, SaysWhatCannotBeTold) {
  const std::vector<Row> rows = {Measured("base", {99, 100, 101}, 10),
                                 Measured("same", {98, 100.5, 102}, 10)};
  const ordered_json study = JsonOf(rows), &json = study.at("rows");
  EXPECT_EQ(json[0].at("base"), true);
  EXPECT_EQ(json[1].at("marks").at("speedup"), "cannot tell: 0.983 to 1.013");
  const std::string text = StudyText(study);
  EXPECT_NE(text.find("~0.995 (0.983 to 1.013)"), std::string::npos) << text;
  EXPECT_NE(text.find("~: cannot tell"), std::string::npos) << text;
  const std::string csv = CsvOf(study);
  EXPECT_EQ(csv.substr(0, 11), "name,status");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
}

TEST(Figures, SeedsBecomeAMeanAndItsDeviation) {
  std::vector<Row> rows = {Measured("base", {10}, 1, {2.0}, "1"),
                           Measured("other", {10}, 1, {2.5}, "1")};
  rows[0].runs.push_back(Measured({10}, {3.0}, "2"));
  rows[0].runs[0].evaluations = {{0, 5}, {9, 2.25}};
  rows[0].runs[1].evaluations = {{0, 5}, {9, 2.75}};
  const ordered_json study = JsonOf(rows), &json = study.at("rows");
  EXPECT_EQ(json[0].at("loss"), 2.5);
  EXPECT_DOUBLE_EQ(json[0].at("loss_deviation"), std::sqrt(0.5));
  EXPECT_EQ(json[0].at("loss_runs"), 2);
  EXPECT_EQ(json[0].at("eval_loss"), 2.5);
  EXPECT_EQ(json[0].at("curve").at("loss"), (std::vector<double>{2.5}));
  // Of several seeds, a band around the mean.
  EXPECT_EQ(json[0].at("curve").at("low"), (std::vector<double>{2}));
  EXPECT_EQ(json[0].at("curve").at("high"), (std::vector<double>{3}));
  EXPECT_EQ(json[0].at("eval_curve").at("low"), (std::vector<double>{5, 2.25}));
  EXPECT_EQ(json[0].at("eval_curve").at("high"), (std::vector<double>{5, 2.75}));
  EXPECT_FALSE(json[1].at("curve").contains("low"));
  EXPECT_EQ(json[0].at("eval_curve").at("step"), (std::vector<int>{0, 9}));
  EXPECT_EQ(json[1].at("loss"), 2.5);
  EXPECT_TRUE(json[1].at("loss_deviation").is_null());
  EXPECT_EQ(json[1].at("loss_runs"), 1);
  EXPECT_EQ(json[1].at("loss_difference"), 0.5);
  const std::string text = StudyText(study);
  EXPECT_NE(text.find("2.5 ± 0.7 (2)"), std::string::npos) << text;
  EXPECT_NE(text.find("2.5 (1)"), std::string::npos) << text;
  EXPECT_EQ(text.find("best held-out"), std::string::npos) << text;  // the last is the best
}

// A row whose five seeds end with these losses.
Row WithLosses(const std::string& name, const std::vector<double>& losses) {
  Row row = Measured(name, {10}, 1, {losses[0]}, "0");
  for (size_t i = 1; i < losses.size(); ++i) {
    row.runs.push_back(Measured({10}, {losses[i]}, std::to_string(i)));
  }
  return row;
}

TEST(Figures, DifferencesAreToldByTheirIntervalAndRoundedByTheirSpread) {
  const std::vector<Row> rows = {WithLosses("base", {2, 2, 2, 2, 2}),
                                 WithLosses("perhaps", {2.02, 1.998, 2.012, 2.015, 2.003}),
                                 WithLosses("worse", {2.02, 2.021, 2.019, 2.02, 2.02}),
                                 WithLosses("equal", {2, 2, 2, 2, 2})};
  const ordered_json study = JsonOf(rows), &json = study.at("rows");
  // 0.0096 ± 2.776 · 0.00896 / √5.
  EXPECT_EQ(json[1].at("marks").at("loss_difference"), "cannot tell: -0.0015 to +0.021");
  EXPECT_NEAR(json[1].at("loss_difference_low"), -0.00152, 1e-5);
  EXPECT_NEAR(json[1].at("loss_difference_high"), 0.02072, 1e-5);
  for (const size_t told : {2, 3}) {
    EXPECT_EQ(json[told].at("marks").count("loss_difference"), 0u) << json[told].dump();
  }
  const std::string text = StudyText(study);
  for (const char* cell : {"2.010 ± 0.009 (5)", "~+0.010 ± 0.009 (5) (-1.5e-03 to +2.1e-02)",
                           "  +0.0200 ± 0.0007 (5)", "0 ± 0 (5)"}) {
    EXPECT_NE(text.find(cell), std::string::npos) << cell << " in\n" << text;
  }
}

TEST(Columns, AreThoseThatAreChosen) {
  std::vector<Row> rows = {WithLosses("base", {2, 2, 2, 2, 2}),
                           WithLosses("other", {3, 3, 3, 3, 4})};
  // By their keys, by what the head says, in the order asked for; with what stands beside a mean.
  const std::vector<std::string> chosen = ParseColumns("loss, arena,name,budget_bytes");
  EXPECT_EQ(chosen, (std::vector<std::string>{"loss", "arena_bytes", "name", "budget_bytes"}));
  const StudyFacts facts{.title = "t", .rows = rows, .columns = chosen};
  const ordered_json study = StudyJson(facts);
  const std::string text = StudyText(study);
  const std::string head = text.substr(0, text.find('\n'));
  EXPECT_LT(head.find("loss"), head.find("arena"));
  EXPECT_NE(head.find("budget_bytes"), std::string::npos) << head;
  EXPECT_EQ(head.find("step"), std::string::npos) << head;
  EXPECT_NE(text.find("3.2 ± 0.4 (5)"), std::string::npos) << text;
  const std::string csv = StudyFile("csv", study, facts);
  EXPECT_EQ(csv.substr(0, csv.find('\n')),
            "loss,loss_deviation,loss_runs,arena_bytes,name,budget_bytes");
  EXPECT_NE(csv.find("\n2.0,0.0,5,1,base,\n"), std::string::npos) << csv;
  EXPECT_TRUE(ParseColumns("").empty());
}

TEST(Columns, ThatAreNoneAreRefusedWithTheList) {
  ExpectUserError([] { ParseColumns("name,time"); },
                  {"--columns: \"time\" is no column; there are name, status, ranks, ", "step_ms, ",
                   "arena_bytes, "});
  ExpectUserError([] { ParseColumns("name,,loss"); }, {"--columns: \"\" is no column"});
  ExpectUserError([] { ParseColumns("loss,loss"); }, {"--columns: \"loss\" is named twice"});
}

TEST(LatexTable, EscapesWhatLatexReads) {
  EXPECT_EQ(LatexText("a_b & 50 % #1 $x$ {y} ~ ^ \\ <\n>"),
            "a\\_b \\& 50 \\% \\#1 \\$x\\$ \\{y\\} \\textasciitilde{} \\textasciicircum{} "
            "\\textbackslash{} \\textless{} \\textgreater{}");
  EXPECT_EQ(LatexText("2.8 ± 0.1, zurück"), "2.8 $\\pm$ 0.1, zurück");
}

TEST(LatexTable, HasTheCellsOfTheTable) {
  const ordered_json columns = {
      {{"key", "name"}, {"label", "row"}, {"unit", "text"}},
      {{"key", "step_ms"}, {"label", "step"}, {"unit", "ms"}},
      {{"key", "loss_difference"}, {"label", "difference"}, {"unit", "number"}}};
  const ordered_json rows = {{{"name", "[base]"}, {"step_ms", 12.5}},
                             {{"name", "bf16_a"}, {"step_ms", 10}, {"loss_difference", -0.013}},
                             {{"name", "tight"}, {"note", "not within\nthe budget"}}};
  EXPECT_EQ(
      StudyFile("tex", {{"title", "Mine"}, {"rows", rows}, {"columns", columns}}, {.title = ""}),
      "% Mine\n"
      "% \\usepackage{booktabs}\n"
      "\\begin{tabular}{lrr}\n"
      "\\toprule\n"
      "row & step ms & difference \\\\\n"
      "\\midrule\n"
      "{[}base] & 12.5 &  \\\\\n"
      "bf16\\_a & 10 & $-$1.3e$-$02 \\\\\n"
      "tight &  &  \\\\\n"
      "\\bottomrule\n"
      "\\end{tabular}\n"
      "% tight: not within the budget\n");
}

}  // namespace
}  // namespace plimsoll::studies
