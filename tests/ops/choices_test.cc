// Files of measured choices, and the stores that keep them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fnv1a.h"
#include "ops/cuda/choices/choice_options.h"
#include "ops/cuda/choices/choice_rule.h"
#include "ops/cuda/choices/choice_store.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::ops {
namespace {

constexpr const char* kTitle = "plimsoll tests 1";
constexpr const char* kDevice = "a device, its library";

ChoiceFile FileAt(const std::string& path) { return {path, kTitle, kDevice}; }

Choices Some() {
  return {{"first-8x8x8", {"eng1_k2=3", 12.5}}, {"second", {"00fedcba9876543210", 0.125}}};
}

std::string ErrorOf(const ChoiceFile& file) {
  return MessageOf<UserError>([&] { ReadChoices(file); }).value_or("none");
}

TEST(ChoiceRule, TakesTheFastestOfTheSameBits) {
  EXPECT_EQ(ChosenWay({{{.bits = 1, .microseconds = 10}, {1, 9.99}, {1, 12}}}, 1), 1u);
  EXPECT_EQ(ChosenWay({{{.bits = 1, .microseconds = 10}}}, 1), 0u);
}

TEST(ChoiceRule, TakesOtherBitsOnlyWhereTheyWinByAFifth) {
  EXPECT_EQ(ChosenWay({{{.bits = 1, .microseconds = 10}, {2, 8.5}, {1, 9.9}}}, 1), 2u);
  EXPECT_EQ(ChosenWay({{{.bits = 1, .microseconds = 10}, {2, 8.2}, {1, 9.9}}}, 1), 1u);
  // The fastest of several that win.
  EXPECT_EQ(ChosenWay({{{.bits = 1, .microseconds = 10}, {2, 8}, {3, 7.5}, {3, 7}}}, 1), 3u);
  EXPECT_EQ(ChosenWay({{{.bits = 1, .microseconds = 10}, {2, 9}}}, 2), 1u);
}

TEST(ChoiceRule, TimesAgainWhatMayBeChosen) {
  using Indices = std::vector<size_t>;
  EXPECT_EQ(WaysToTimeAgain({{{.bits = 1, .microseconds = 10}}}), Indices{0});
  // Not far slower ones, nor those with other bits that are.
  EXPECT_EQ(WaysToTimeAgain({{{.bits = 1, .microseconds = 10.2},
                              {1, 12},
                              {1, 10.3},
                              {1, 10},
                              {2, 11.6},
                              {1, 10.4},
                              {1, 11}}}),
            (Indices{0, 2, 3, 5, 6}));
  // But the fastest few of the preferred bits for sure.
  EXPECT_EQ(WaysToTimeAgain({{{.bits = 1, .microseconds = 10}, {1, 30}, {1, 20}}}),
            (Indices{0, 1, 2}));
  EXPECT_EQ(WaysToTimeAgain({{{.bits = 1, .microseconds = 10}, {2, 11}}}), (Indices{0, 1}));
  // The preferred bits stay in, however slow they are.
  EXPECT_EQ(WaysToTimeAgain({{{.bits = 1, .microseconds = 30}, {2, 10}, {3, 11}, {2, 20}}}),
            (Indices{0, 1, 2}));
  std::vector<TimedWay> many;
  for (int i = 0; i < 20; ++i) many.push_back({.bits = 1, .microseconds = 10 - 0.01 * i});
  const Indices fastest = WaysToTimeAgain(many);
  ASSERT_EQ(fastest.size(), 12u);
  EXPECT_EQ(fastest.front(), 8u);
}

TEST(ChoiceFile, ReadsWhatWasWritten) {
  const TempFolder folder;
  const ChoiceFile file = FileAt(folder / "below/choices.txt");
  EXPECT_TRUE(ReadChoices(file).empty());
  WriteChoices(file, Some());
  const Choices read = ReadChoices(file);
  ASSERT_EQ(read.size(), 2u);
  for (const auto& [key, choice] : Some()) {
    ASSERT_TRUE(read.count(key)) << key;
    EXPECT_EQ(read.at(key).way, choice.way);
    EXPECT_EQ(read.at(key).microseconds, choice.microseconds);
  }
  EXPECT_EQ(folder.Names("below"), std::vector<std::string>{"choices.txt"});
}

TEST(ChoiceFile, BelievesNoDamagedFile) {
  const TempFolder folder;
  const ChoiceFile file = FileAt(folder / "choices.txt");
  WriteChoices(file, Some());
  const std::string good = folder.Read("choices.txt");
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 1;
    folder.Write("choices.txt", bad);
    ASSERT_NE(ErrorOf(file), "none") << "byte " << i;
    folder.Write("choices.txt", good.substr(0, i));
    ASSERT_NE(ErrorOf(file), "none") << "the first " << i << " bytes";
  }
  folder.Write("choices.txt", good + good);
  EXPECT_NE(ErrorOf(file), "none");
}

TEST(ChoiceFile, IsOfOneDeviceAndOneKind) {
  const TempFolder folder;
  const ChoiceFile file = FileAt(folder / "choices.txt");
  WriteChoices(file, Some());
  EXPECT_EQ(ErrorOf({file.path, kTitle, "another"}),
            file.path + ":2: of another device or library");
  EXPECT_EQ(ErrorOf({file.path, "plimsoll tests 2", kDevice}),
            file.path + ":1: not a file of this version");
}

// With the right checksum.
std::string Signed(const std::string& lines) {
  return lines + fmt::format("checksum {:016x}\n", Fnv1a(lines));
}

TEST(ChoiceFile, HasEveryProblemOnceWithChoiceAndTime) {
  const TempFolder folder;
  const ChoiceFile file = FileAt(folder / "choices.txt");
  const std::string head = std::string(kTitle) + "\n" + kDevice + "\n";
  folder.Write("choices.txt", Signed(head + "a x 1.5\nb x 2\n"));
  EXPECT_EQ(ReadChoices(file).size(), 2u);
  folder.Write("choices.txt", Signed(head + "a x 1.5\nb x 2\na y 3\n"));
  EXPECT_EQ(ErrorOf(file), file.path + ":5: a problem given twice");
  for (const char* line : {"a x", "a x 1 2", "a x -1", "a x 0", "a x inf", "a x 1s", "a  1", ""}) {
    folder.Write("choices.txt", Signed(head + line + "\n"));
    EXPECT_EQ(ErrorOf(file), file.path + ":3: not a problem, a choice and a time") << line;
  }
}

// What earlier versions have written stays valid.
TEST(ChoiceFile, ReadsMatrixProducts) {
  const TempFolder folder;
  const std::string digits(128, '7');
  folder.Write("products.txt", Signed("plimsoll matrix products 2\nNVIDIA H200, cublasLt 130100\n"
                                      "bf16-8x8x8 " +
                                      digits + " 3.250\n"));
  const Choices read = ReadChoices(
      {folder / "products.txt", "plimsoll matrix products 2", "NVIDIA H200, cublasLt 130100"});
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read.at("bf16-8x8x8").way, digits);
  EXPECT_EQ(read.at("bf16-8x8x8").microseconds, 3.25);
}

// Choices of a process of its own, in which `fastest` wins all measurements.
class Process {
 public:
  explicit Process(std::string fastest) : fastest_(std::move(fastest)) {}

  std::optional<std::string> Choose(const std::string& key) {
    return store_.Choose(
        key, [&](const std::string& way) { return !gone.count(way); },
        [&]() -> std::optional<Choice> {
          ++measurements;
          if (fastest_.empty()) return std::nullopt;
          return Choice{fastest_, 1.5};
        });
  }

  std::set<std::string> gone;  // ways that the library no longer offers
  int measurements = 0;

 private:
  std::string fastest_;
  ChoiceStore store_{"tests", kTitle, kDevice};
};

class ChoiceStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    SetChoices({.measure = true, .folder = folder_.path(), .warn = [&](const std::string& text) {
                  warnings_.push_back(text);
                }});
  }
  void TearDown() override { SetChoices({}); }

  TempFolder folder_;
  std::vector<std::string> warnings_;
};

TEST_F(ChoiceStoreTest, MeasuresOnceAndFindsTheFile) {
  Process first("x");
  EXPECT_EQ(first.Choose("a"), "x");
  EXPECT_EQ(first.Choose("a"), "x");
  EXPECT_EQ(first.measurements, 1);
  EXPECT_EQ(folder_.Names(), std::vector<std::string>{"tests-a-device-its-library.txt"});
  Process second("y");
  EXPECT_EQ(second.Choose("a"), "x");
  EXPECT_EQ(second.measurements, 0);
  EXPECT_EQ(second.Choose("b"), "y");
  EXPECT_EQ(Process("z").Choose("b"), "y");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(ChoiceStoreTest, RanksTakeWhatWasStoredFirst) {
  Process one("x"), other("y");  // neither finds a file
  EXPECT_EQ(one.Choose("a"), "x");
  EXPECT_EQ(other.Choose("b"), "y");
  EXPECT_EQ(other.Choose("a"), "x");
  EXPECT_EQ(other.measurements, 2);
  EXPECT_EQ(one.Choose("b"), "y");
  Process next("z");
  EXPECT_EQ(next.Choose("a"), "x");
  EXPECT_EQ(next.Choose("b"), "y");
}

TEST_F(ChoiceStoreTest, MeasuresAgainWhatIsNoLongerOffered) {
  Process("x").Choose("a");
  Process later("y");
  later.gone = {"x"};
  EXPECT_EQ(later.Choose("a"), "y");
  EXPECT_EQ(Process("z").Choose("a"), "y");
}

TEST_F(ChoiceStoreTest, KeepsNothingWhereThereIsNoWay) {
  EXPECT_EQ(Process("").Choose("a"), std::nullopt);
  EXPECT_TRUE(folder_.Names().empty());
}

TEST_F(ChoiceStoreTest, ReplacesADamagedFileWithAWarning) {
  Process("x").Choose("a");
  const std::string name = folder_.Names().at(0);
  folder_.Write(name, "nonsense\n");
  EXPECT_EQ(Process("y").Choose("a"), "y");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(warnings_[0],
            folder_ / name + ":1: damaged: its checksum does not fit; algorithms are chosen anew");
  EXPECT_EQ(Process("z").Choose("a"), "y");
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(ChoiceStoreTest, WarnsOnceOfAFolderThatCannotBeWritten) {
  ChoiceOptions options = CurrentChoiceOptions();
  options.folder = "/dev/null/none";
  SetChoices(options);
  Process process("x");
  EXPECT_EQ(process.Choose("a"), "x");
  EXPECT_EQ(process.Choose("b"), "x");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("/dev/null/none"), std::string::npos) << warnings_[0];
}

TEST_F(ChoiceStoreTest, HasNoFileWhereNothingIsMeasured) {
  const uint64_t generation = ChoiceGeneration();
  SetChoices({.measure = false, .folder = folder_.path(), .warn = {}});
  EXPECT_FALSE(MeasuresChoices());
  EXPECT_EQ(ChoiceFolder(), "");
  EXPECT_GT(ChoiceGeneration(), generation);
}

}  // namespace
}  // namespace plimsoll::ops
