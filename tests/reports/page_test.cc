#include "reports/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/study_page.h"
#include "reports/timeline_views.h"
#include "tests/reports/sample_study.h"

namespace plimsoll::reports {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

// The JSON text that the page's scripts read.
std::string DataText(const std::string& html) {
  const std::string begin = "id=\"data\">";
  const size_t from = html.find(begin) + begin.size();
  return html.substr(from, html.find("</script>", from) - from);
}

TEST(Page, KeepsItsDataWhateverItSays) {
  const std::string nasty = "</script><!--<script>\xE2\x80\xA8\xFF & \"quotes\"";
  Page page{nasty, nasty};
  page.views.push_back({{"type", "text"}, {"summary", nasty}, {"text", nasty}});
  const std::string html = Render(page);
  const ordered_json data = ordered_json::parse(DataText(html));
  // Only the byte that is not UTF-8 has been replaced.
  const std::string kept = "</script><!--<script>\xE2\x80\xA8\xEF\xBF\xBD & \"quotes\"";
  EXPECT_EQ(data["title"], kept);
  EXPECT_EQ(data["views"][0]["text"], kept);
  EXPECT_THAT(html, HasSubstr("<title>&lt;/script&gt;"));
  EXPECT_THAT(DataText(html), Not(HasSubstr("<")));
}

TEST(Page, AsksTheNetworkForNothing) {
  const std::string html = Render({"title", "", ordered_json::array()});
  for (const char* reference : {" src=", " href=", "@import"}) {
    EXPECT_THAT(html, Not(HasSubstr(reference))) << reference;
  }
  // References within the same document are allowed.
  for (size_t at = 0; (at = html.find("url(", at)) != std::string::npos; ++at) {
    EXPECT_EQ(html[at + 4], '#') << html.substr(at, 40);
  }
  EXPECT_THAT(html, HasSubstr("Chart.js v"));
  EXPECT_LT(html.size(), 320'000u);
}

TEST(StudyPage, ShowsWhatTheRowsHave) {
  ordered_json study = SampleStudy();
  auto types = [&] {
    std::vector<std::string> found;
    const ordered_json data = ordered_json::parse(DataText(StudyPage(study)));
    for (const ordered_json& view : data["views"]) found.push_back(view["type"]);
    return found;
  };
  EXPECT_EQ(types(),
            (std::vector<std::string>{"front", "table", "bars", "timeline", "lines", "facts"}));
  for (ordered_json& row : study["rows"]) {
    for (const char* key : {"bytes_by_role", "timeline", "curve", "peak_bytes"}) row.erase(key);
  }
  study.erase("facts");
  EXPECT_EQ(types(), (std::vector<std::string>{"table"}));
  study["warning"] = "Times are not to be trusted";
  study["rows"][0]["eval_curve"] = {{"step", {0, 9}}, {"loss", {5, 4}}};
  EXPECT_EQ(types(), (std::vector<std::string>{"notice", "table", "lines"}));
}

TEST(StudyPage, RowsWithoutAResultAreNoPointsOfTheFront) {
  ordered_json study = SampleStudy();
  const auto points = [&] {
    return ordered_json::parse(DataText(StudyPage(study)))["views"][0]["points"].size();
  };
  const size_t all = points();
  study["rows"][2]["status"] = "unfinished";
  EXPECT_EQ(points(), all - 1);
}

// The views "lines" of a study's page.
ordered_json LinesOf(const ordered_json& study) {
  ordered_json lines = ordered_json::array();
  const ordered_json data = ordered_json::parse(DataText(StudyPage(study)));
  for (const ordered_json& view : data["views"]) {
    if (view["type"] == "lines") lines.push_back(view);
  }
  return lines;
}

TEST(StudyPage, EqualCurvesAreOneAndSeedsAreABand) {
  ordered_json rows = ordered_json::array();
  for (const char* name : {"none", "block", "bf16", "offload", "host", "auto"}) {
    rows.push_back({{"name", name}, {"curve", {{"step", {0, 1}}, {"loss", {5, 4}}}}});
  }
  rows[2]["curve"]["loss"] = {5, 4.0000001};
  ordered_json study = {{"title", "t"}, {"columns", ordered_json::array()}, {"rows", rows}};
  ordered_json lines = LinesOf(study);
  ASSERT_EQ(lines.size(), 1u);
  ASSERT_EQ(lines[0]["series"].size(), 2u);
  // A legend has room for four names, the note above for all.
  EXPECT_EQ(lines[0]["series"][0]["name"], "equal: none, block, offload, host and 1 more");
  EXPECT_EQ(lines[0]["series"][1]["name"], "bf16");
  EXPECT_EQ(lines[0]["note"], "Equal to the bit: none, block, offload, host, auto.");
  EXPECT_FALSE(lines[0]["series"][0].contains("y_low"));

  study["rows"][2]["curve"]["low"] = {4.5, 3.5};
  study["rows"][2]["curve"]["high"] = {5.5, 4.5};
  study["rows"][2]["eval_curve"] = {{"step", {1}}, {"loss", {4}}};
  lines = LinesOf(study);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["series"][1]["y_low"], ordered_json({4.5, 3.5}));
  EXPECT_EQ(lines[0]["series"][1]["y_high"], ordered_json({5.5, 4.5}));
  EXPECT_THAT(lines[0]["note"].get<std::string>(),
              HasSubstr("Bands reach from the least to the most of a row's seeds"));
  EXPECT_EQ(lines[1]["note"], "");
}

// A timeline of two buffers in the arena and one on the host; the first becomes a gradient at
// node 2.
ordered_json TwoBuffers() {
  const auto buffer = [](const char* name, int birth, int death, int64_t offset, int64_t bytes) {
    return ordered_json{{"name", name},     {"type", "f32[1]"}, {"role", "activation"},
                        {"op", "add"},      {"scope", ""},      {"place", "device"},
                        {"offset", offset}, {"bytes", bytes},   {"birth", birth},
                        {"death", death}};
  };
  ordered_json first = buffer("x", 0, 3, 1000, 100);
  first["then"].push_back({{"name", "then"},
                           {"type", "f32[1]"},
                           {"role", "gradient"},
                           {"op", "add"},
                           {"scope", ""},
                           {"birth", 2}});
  ordered_json on_host = buffer("on host", 1, 1, 0, 7);
  on_host["place"] = "host";
  ordered_json nodes = ordered_json::array();
  for (const char* phase : {"forward", "recompute", "backward", "update"}) {
    nodes.push_back({{"op", "add"}, {"scope", "s"}, {"phase", phase}});
  }
  ordered_json timeline = {{"arena_bytes", 1200}};
  timeline["persistent"].push_back({{"name", "w"},
                                    {"type", "f32[250]"},
                                    {"role", "parameter"},
                                    {"place", "device"},
                                    {"offset", 0},
                                    {"bytes", 1000}});
  timeline["programs"].push_back({{"name", "train"},
                                  {"nodes", nodes},
                                  {"buffers", {first, buffer("y", 1, 2, 1100, 50), on_host}},
                                  {"live_bytes", {1100, 1150, 1150, 1100}},
                                  {"host_live_bytes", {0, 7, 0, 0}}});
  return timeline;
}

TEST(MemoryStack, SumsToLiveBytesAndKeepsThePeak) {
  const ordered_json timeline = TwoBuffers();
  const ordered_json stack = MemoryStack(timeline)["programs"][0];
  EXPECT_EQ(stack["at"], ordered_json({0, 1, 2, 3}));
  EXPECT_EQ(stack["roles"]["parameter"], ordered_json({1000, 1000, 1000, 1000}));
  EXPECT_EQ(stack["roles"]["activation"], ordered_json({100, 150, 50, 0}));
  EXPECT_EQ(stack["roles"]["gradient"], ordered_json({0, 0, 100, 100}));
  EXPECT_EQ(stack["host"], ordered_json({0, 7, 0, 0}));
  EXPECT_EQ(stack["phases"], (ordered_json{{{"name", "forward"}, {"from", 0}, {"to", 0}},
                                           {{"name", "backward"}, {"from", 1}, {"to", 2}},
                                           {{"name", "update"}, {"from", 3}, {"to", 3}}}));
  EXPECT_EQ(stack["peak"]["node"], 1);
  EXPECT_EQ(stack["peak"]["bytes"], 1150);
  // The larger of two neighbours.
  EXPECT_EQ(MemoryStack(timeline, 2)["programs"][0]["at"], ordered_json({1, 2}));
}

TEST(PlanRectangles, GivesEachTensorOfABufferItsTime) {
  const ordered_json plan = PlanRectangles(TwoBuffers());
  const ordered_json& program = plan["programs"][0];
  EXPECT_EQ(program["nodes"], 4);
  EXPECT_EQ(program["peak"]["op"], "add");
  std::vector<std::string> tensors;
  for (const ordered_json& tensor : program["tensors"]) {
    tensors.push_back(tensor["name"].get<std::string>() + " " + tensor["birth"].dump() + "-" +
                      tensor["death"].dump() + " at " + tensor["offset"].dump());
  }
  // Tensors on the host have no place in the arena.
  EXPECT_EQ(tensors,
            (std::vector<std::string>{"x 0-1 at 1000", "then 2-3 at 1000", "y 1-2 at 1100"}));
  EXPECT_EQ(plan["persistent"].size(), 1u);
  EXPECT_EQ(plan["arena_bytes"], 1200);
}

}  // namespace
}  // namespace plimsoll::reports
