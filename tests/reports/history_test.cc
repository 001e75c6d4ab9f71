#include "reports/history.h"

#include <gtest/gtest.h>

#include <limits>

namespace plimsoll::reports {
namespace {

using nlohmann::ordered_json;

History LossAndRate(size_t most) { return History({{"loss"}, {"lr", History::Of::kLast}}, most); }

TEST(History, KeepsRowsAsLongAsThereIsRoom) {
  History history = LossAndRate(4);
  EXPECT_TRUE(history.empty());
  for (int step = 0; step < 4; ++step) {
    history.Add({{"step", step}, {"loss", 10 - step}, {"lr", 0.5 * step}});
  }
  EXPECT_EQ(history.rows_per_point(), 1);
  EXPECT_EQ(history.Steps(), ordered_json({0, 1, 2, 3}));
  EXPECT_EQ(history.Values("loss"), ordered_json({10.0, 9.0, 8.0, 7.0}));
  EXPECT_EQ(history.Last("lr"), 1.5);
}

TEST(History, JoinsRowsWhenItIsFull) {
  History history = LossAndRate(4);
  for (int step = 0; step < 9; ++step) {
    history.Add({{"step", step}, {"loss", step}, {"lr", step}});
  }
  // Rows 0 to 3, 4 to 7, and those of the next four that exist.
  EXPECT_EQ(history.rows_per_point(), 4);
  EXPECT_EQ(history.Steps(), ordered_json({3, 7, 8}));
  EXPECT_EQ(history.Values("loss"), ordered_json({1.5, 5.5, 8.0}));
  EXPECT_EQ(history.Values("lr"), ordered_json({3.0, 7.0, 8.0}));
}

TEST(History, ShowsWhatIsNoNumberAsAGap) {
  History history = LossAndRate(4);
  history.Add({{"step", 0}, {"loss", nullptr}});
  history.Add({{"step", 1}, {"loss", std::numeric_limits<double>::infinity()}});
  EXPECT_FALSE(history.Has("loss"));
  history.Add({{"step", 2}, {"loss", 3.0}});
  EXPECT_TRUE(history.Has("loss"));
  EXPECT_FALSE(history.Has("lr"));
  EXPECT_EQ(history.Values("loss"), ordered_json({nullptr, nullptr, 3.0}));
}

}  // namespace
}  // namespace plimsoll::reports
