#include "reports/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/memory_stack.h"
#include "reports/study_page.h"
#include "tests/reports/sample_study.h"

namespace plimsoll::reports {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

// The JSON that the page's scripts read.
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
  // Only the byte that is no UTF-8 has become another.
  const std::string kept = "</script><!--<script>\xE2\x80\xA8\xEF\xBF\xBD & \"quotes\"";
  EXPECT_EQ(data["title"], kept);
  EXPECT_EQ(data["views"][0]["text"], kept);
  EXPECT_THAT(html, HasSubstr("<title>&lt;/script&gt;"));
  EXPECT_THAT(DataText(html), Not(HasSubstr("<")));
}

TEST(Page, AsksTheNetworkForNothing) {
  const std::string html = Render({"title", "", ordered_json::array()});
  for (const char* reference : {" src=", " href=", "@import", "url("}) {
    EXPECT_THAT(html, Not(HasSubstr(reference))) << reference;
  }
  EXPECT_THAT(html, HasSubstr("Chart.js v"));
  EXPECT_LT(html.size(), 300'000u);
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
}

TEST(MemoryStack, SumsToLiveBytesAndKeepsThePeak) {
  // Two buffers; the first becomes a gradient at node 2.
  const auto buffer = [](const char* role, int birth, int death, int64_t bytes) {
    return ordered_json{
        {"role", role}, {"place", "device"}, {"bytes", bytes}, {"birth", birth}, {"death", death}};
  };
  ordered_json first = buffer("activation", 0, 3, 100);
  first["then"].push_back({{"role", "gradient"}, {"birth", 2}});
  ordered_json on_host = buffer("activation", 1, 1, 7);
  on_host["place"] = "host";
  ordered_json nodes = ordered_json::array();
  for (const char* phase : {"forward", "recompute", "backward", "update"}) {
    nodes.push_back({{"op", "add"}, {"scope", "s"}, {"phase", phase}});
  }
  ordered_json timeline = {{"arena_bytes", 1200}};
  timeline["persistent"].push_back({{"role", "parameter"}, {"place", "device"}, {"bytes", 1000}});
  timeline["programs"].push_back({{"name", "train"},
                                  {"nodes", nodes},
                                  {"buffers", {first, buffer("activation", 1, 2, 50), on_host}},
                                  {"live_bytes", {1100, 1150, 1150, 1100}},
                                  {"host_live_bytes", {0, 7, 0, 0}}});
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
  // Of two neighbours the one with more.
  EXPECT_EQ(MemoryStack(timeline, 2)["programs"][0]["at"], ordered_json({1, 2}));
}

}  // namespace
}  // namespace plimsoll::reports
