// A run's metrics in bounded memory, for charts. However long the run is, the number of points is
// bounded: each point summarises as many rows as necessary.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace plimsoll::reports {

// The value as JSON, or null if it is not finite.
nlohmann::ordered_json OrNull(double value);

class History {
 public:
  // How a point's value is made: the mean over its rows, or the last row's value.
  enum class Of { kMean, kLast };
  struct Column {
    std::string name;  // member of the rows
    Of of = Of::kMean;
  };

  // `most`: the largest number of points, which must be even.
  explicit History(std::vector<Column> columns, size_t most = 2048);

  // Adds a row {"step": …, "loss": …}. A value that is absent, null or not finite makes a gap in
  // its column.
  void Add(const nlohmann::ordered_json& row);

  // The step of each point's last row.
  nlohmann::ordered_json Steps() const;
  // A value or null for each point.
  nlohmann::ordered_json Values(const std::string& column) const;
  bool Has(const std::string& column) const;     // whether any point has a value
  double Last(const std::string& column) const;  // NaN before the first value
  int64_t rows_per_point() const { return rows_per_point_; }
  bool empty() const { return points_.empty(); }

 private:
  struct Point {
    int64_t step = 0, rows = 0;
    std::vector<double> values;  // value of each column; NaN: a gap
  };
  size_t Index(const std::string& column) const;
  // Adds the rows of the following point `next` to `point`.
  void Join(Point& point, const Point& next) const;

  std::vector<Column> columns_;
  size_t most_;
  int64_t rows_per_point_ = 1;
  std::vector<Point> points_;  // all points but the last have rows_per_point_ rows
};

}  // namespace plimsoll::reports
