#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/study_page.h"
#include "tests/reports/sample_study.h"
#include "tests/support/expect_error.h"

namespace plimsoll::reports {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++count;
  return count;
}

ordered_json Study(std::vector<ordered_json> rows) {
  return {{"title", "Memory & <speed>"}, {"columns", ordered_json::array()}, {"rows", rows}};
}

TEST(FrontPicture, ShowsEachRowThatIsDone) {
  ordered_json study = SampleStudy();
  const size_t points = Count(FrontPicture(study), "<title>");
  EXPECT_GT(points, 3u);
  study["rows"][2]["status"] = "unfinished";
  const std::string picture = FrontPicture(study);
  EXPECT_EQ(Count(picture, "<title>"), points - 1);
  ExpectText(picture, {">peak memory", ">time of a step", "fill=\"#ffffff\""});
  for (const char* reference : {" src=", " href=", "@import", "nan", "inf\""}) {
    EXPECT_THAT(picture, Not(HasSubstr(reference))) << reference;
  }
}

TEST(FrontPicture, EscapesNamesAndShowsBudgetsAndSpreads) {
  const std::string picture =
      FrontPicture(Study({{{"name", "a < b & \"c\""},
                           {"base", true},
                           {"peak_bytes", 100 << 20},
                           {"step_ms", 100.0},
                           {"step_ms_low", 95.0},
                           {"step_ms_high", 110.0},
                           {"budget_bytes", 120 << 20}},
                          {{"name", "small"}, {"peak_bytes", 20 << 20}, {"step_ms", 95.0}}}));
  ExpectText(picture, {"Memory &amp; &lt;speed&gt;", ">a &lt; b &amp; &quot;c&quot;<",
                       ">budget 120 MiB<", ">20 MiB<", "axis from 90 ms, not 0"});
  EXPECT_EQ(Count(picture, "stroke-opacity"), 1u);
}

TEST(FrontPicture, OfASinglePointAndOfNone) {
  EXPECT_THAT(FrontPicture(Study({{{"name", "one"}, {"peak_bytes", 5}, {"step_ms", 1e-3}}})),
              HasSubstr(">one<"));
  EXPECT_THAT(FrontPicture(Study({{{"name", "one"}}})), HasSubstr("No row has"));
}

}  // namespace
}  // namespace plimsoll::reports
