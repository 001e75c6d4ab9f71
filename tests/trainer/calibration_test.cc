// The file of timed calls. No test depends on how long anything took.
#include "trainer/resolve/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "graph/text.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::trainer {
namespace {

using graph::Program;
using testing::HasSubstr;

Program Example() {
  return graph::ParseProgram(R"(
    program p
      tensor %x: f32[8,16] input persistent
      tensor %w: f32[32,16] parameter persistent
      tensor %tokens: i32[2,4] input persistent
    forward
      %y: f32[8,32] = linear(%x, %w, _)
      %e: f32[2,4,16] = embedding(%tokens, %w, _)
      %b: bf16[8,16] = cast(%x) {dtype="bf16"}
      %c: bf16[8,16] = gelu(%b) {approximate="tanh"}
    )");
}

class Calibration : public testing::Test {
 protected:
  memory::CostModel Run() {
    messages_.clear();
    const Program* programs[] = {&program_};
    return Calibrate(programs, pool_, Options());
  }
  CalibrationOptions Options() {
    CalibrationOptions options;
    options.folder = folder_ / "cache";
    options.say = [this](const std::string& text) { messages_.push_back(text); };
    return options;
  }
  std::string File() const {
    const std::vector<std::string> names = folder_.Names("cache");
    return names.empty() ? "" : folder_ / ("cache/" + names[0]);
  }

  const TempFolder folder_;
  const Program program_ = Example();
  ThreadPool pool_{1};
  std::vector<std::string> messages_;
};

TEST_F(Calibration, TimesEveryCallOnceAndKeepsIt) {
  const memory::CostModel model = Run();
  for (const graph::Node& node : program_.nodes()) {
    EXPECT_TRUE(model.Knows(program_.CallOf(node).get())) << node.op->name;
    EXPECT_GT(model.Seconds(program_.CallOf(node).get()), 0) << node.op->name;
  }
  ASSERT_EQ(folder_.Names("cache").size(), 1u);
  const std::string kept = ReadFile(File());
  const memory::CostModel again = Run();
  EXPECT_EQ(ReadFile(File()), kept);
  const memory::CostModel loaded = LoadCalibration(1, Options());
  for (const graph::Node& node : program_.nodes()) {
    const Program::Call call = program_.CallOf(node);
    EXPECT_EQ(again.Seconds(call.get()), model.Seconds(call.get()));
    EXPECT_EQ(loaded.Seconds(call.get()), model.Seconds(call.get()));
  }
  EXPECT_TRUE(messages_.empty());
}

TEST_F(Calibration, KnowsWhenItWasMade) {
  EXPECT_THAT(Run().when(), testing::MatchesRegex("on [0-9]{4}-[0-9]{2}-[0-9]{2}"));
  std::string older = ReadFile(File());
  const size_t at = older.find("\"first\": \"");
  ASSERT_NE(at, std::string::npos);
  older.replace(at + 10, 10, "2020-01-31");
  WriteFile(File(), older);
  EXPECT_THAT(Run().when(), testing::StartsWith("from 2020-01-31 to 2"));
  EXPECT_EQ(ReadFile(File()), older);
}

TEST_F(Calibration, ABadFileIsIgnoredWithAWarningAndReplaced) {
  Run();
  const std::string good = ReadFile(File());
  std::string negative = good;
  const size_t at = negative.find("\"seconds\": ");
  ASSERT_NE(at, std::string::npos);
  negative.insert(at + 11, "-");
  for (const std::string& bad : {std::string("{"), std::string("[]"), std::string("{}"),
                                 std::string(), good.substr(0, good.size() / 2), negative}) {
    WriteFile(File(), bad);
    Run();
    ASSERT_EQ(messages_.size(), 1u) << bad;
    EXPECT_THAT(messages_[0], HasSubstr("made anew"));
    EXPECT_NE(ReadFile(File()), bad);
    Run();
    EXPECT_TRUE(messages_.empty()) << bad;
  }
}

TEST_F(Calibration, OfAnotherVersionIsMadeAnewInSilence) {
  Run();
  std::string other = ReadFile(File());
  const size_t at = other.find("\"version\": ");
  ASSERT_NE(at, std::string::npos);
  other.insert(at + 11, "9");
  WriteFile(File(), other);
  EXPECT_TRUE(Run().measured());
  EXPECT_TRUE(messages_.empty());
  EXPECT_NE(ReadFile(File()), other);
}

TEST_F(Calibration, AFixedOneIsTakenAsItIs) {
  const Program* programs[] = {&program_};
  CalibrationOptions options = Options();
  options.fixed = true;
  EXPECT_FALSE(Calibrate(programs, pool_, options).measured());
  EXPECT_EQ(Calibrate(programs, pool_, options).when(), "");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache"));
  EXPECT_TRUE(Run().measured());
  const std::string written = ReadFile(File());
  EXPECT_TRUE(Calibrate(programs, pool_, options).measured());
  EXPECT_EQ(ReadFile(File()), written);
}

TEST_F(Calibration, AFolderThatCannotBeMadeIsAWarning) {
  folder_.Write("cache", "a file");
  EXPECT_TRUE(Run().measured());
  ASSERT_EQ(messages_.size(), 1u);
  EXPECT_THAT(messages_[0], HasSubstr("not kept"));
}

// One process alone would time nothing.
TEST_F(Calibration, CollectivesAreNotTimed) {
  const Program program = graph::ParseProgram(R"(
    program p
      tensor %x: f32[8,16] input persistent
      tensor %y: f32[8,16] input persistent
    forward
      %z: f32[8,16] = add(%x, %y)
      %a: f32[8,16] = all_reduce_start(%x) {axis="data"}
      %sum: f32[8,16] view %a+0 = all_reduce_done(%a)
    )");
  const Program* programs[] = {&program};
  memory::CostModel model = Calibrate(programs, pool_, Options());
  EXPECT_TRUE(model.Knows(program.CallOf(program.nodes()[0]).get()));
  const Program::Call sum = program.CallOf(program.nodes()[1]);
  EXPECT_FALSE(model.Knows(sum.get()));
  // Nor is a time believed that a file has.
  model.Add({memory::SignatureOf(sum.get()), memory::KindOf(sum.get()), 1, 1});
  EXPECT_EQ(model.Seconds(sum.get()), model.Ideal(sum.get()));
}

TEST_F(Calibration, LongCallsAreScaledFromTimedOnes) {
  CalibrationOptions options = Options();
  options.call_seconds = 0;
  const Program* programs[] = {&program_};
  EXPECT_FALSE(Calibrate(programs, pool_, options).measured());
}

TEST_F(Calibration, OfAGpuThatIsNotHereComesFromItsFileOrTheBuiltInRates) {
  const Program* programs[] = {&program_};
  const memory::CostModel model = CalibrateGpu(programs, "No such GPU", {}, Options());
  EXPECT_TRUE(model.rates().copies_overlap());
  for (const graph::Node& node : program_.nodes()) {
    EXPECT_GT(model.Seconds(program_.CallOf(node).get()), 0) << node.op->name;
  }
}

}  // namespace
}  // namespace plimsoll::trainer
