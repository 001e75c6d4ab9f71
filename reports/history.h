// What pictures keep of a run's metrics, however long it is: a bounded number of points, each of
// which stands for as many rows as it must.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace plimsoll::reports {

class History {
 public:
  // What a point shows of its rows: their mean, or the last one's value.
  enum class Of { kMean, kLast };
  struct Column {
    std::string name;  // member of the rows
    Of of = Of::kMean;
  };

  // `most` points, an even number.
  explicit History(std::vector<Column> columns, size_t most = 2048);

  // {"step": …, "loss": …}. What is absent, null or not finite makes its point a gap.
  void Add(const nlohmann::ordered_json& row);

  // Of the points' last rows.
  nlohmann::ordered_json Steps() const;
  // A value or null for each point.
  nlohmann::ordered_json Values(const std::string& column) const;
  bool Has(const std::string& column) const;     // any value that is no gap
  double Last(const std::string& column) const;  // NaN before there is one
  int64_t rows_per_point() const { return rows_per_point_; }
  bool empty() const { return points_.empty(); }

 private:
  struct Point {
    int64_t step = 0, rows = 0;
    std::vector<double> values;  // by column; NaN: a gap
  };
  size_t Index(const std::string& column) const;
  // Takes the rows of `next`, which follow.
  void Join(Point& point, const Point& next) const;

  std::vector<Column> columns_;
  size_t most_;
  int64_t rows_per_point_ = 1;
  std::vector<Point> points_;  // all but the last full
};

}  // namespace plimsoll::reports
