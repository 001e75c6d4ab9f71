#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "trainer/language/eval.h"

namespace plimsoll::trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ConfusionText, AlignsRowsOfLabelsUnderTheNamesOfPredictions) {
  const std::vector<double> counts = {8, 2, 0, 1, 9, 0, 0, 0, 0};
  EXPECT_EQ(ConfusionText(counts, {"cat", "déjà", "never"}),
            "how often each label (row) was taken for each class (column):\n"
            "  label         cat    déjà  never  recall\n"
            "  cat             8       2      0  80.0 %\n"
            "  déjà            1       9      0  90.0 %\n"
            "  never           0       0      0       -\n"
            "  precision  88.9 %  81.8 %      -\n");
  EXPECT_THAT(ConfusionText(counts, {}), HasSubstr("  label           0       1  2  recall\n"));
}

// Where the names leave no room beside one another, numbers stand above the columns.
TEST(ConfusionText, NumbersTheColumnsWhereNamesAreLong) {
  std::vector<double> counts(144);
  counts[1] = 3;
  std::vector<std::string> names(12, "a name of many letters");
  const std::string text = ConfusionText(counts, names);
  ExpectText(text,
             {"  label                      0      1", "\n  0 a name of many letters   0      3"});
}

TEST(ConfusionText, OfManyClassesShowsTheWorstAndWhatTheyAreTakenFor) {
  constexpr size_t kClasses = 13;
  std::vector<double> counts(kClasses * kClasses);
  for (size_t k = 0; k < kClasses; ++k) counts[k * kClasses + k] = 10;
  counts[3 * kClasses + 7] = 30;
  counts[5 * kClasses + 1] = 10;
  std::vector<std::string> names;
  for (size_t k = 0; k < kClasses; ++k) names.push_back("class" + std::to_string(k));
  const std::string text = ConfusionText(counts, names);
  ExpectText(text, {"of 13 classes, those of the lowest recall:\n"
                    "  class    recall  precision  labels\n"
                    "  class3   25.0 %    100.0 %      40\n"
                    "  class5   50.0 %    100.0 %      20\n"
                    "  class0  100.0 %    100.0 %      10\n",
                    "the most frequent confusions:\n"
                    "  label   taken for  times  of its labels\n"
                    "  class3  class7        30         75.0 %\n"
                    "  class5  class1        10         50.0 %\n"});
  EXPECT_THAT(text, Not(HasSubstr("class12")));

  for (size_t k = 0; k < kClasses; ++k) counts[k * kClasses + 7] = counts[k * kClasses + 1] = 0;
  EXPECT_THAT(ConfusionText(counts, names), HasSubstr("no class was taken for another\n"));
}

}  // namespace
}  // namespace plimsoll::trainer
