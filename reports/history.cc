#include "reports/history.h"

#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace plimsoll::reports {
namespace {

using nlohmann::ordered_json;

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

}  // namespace

ordered_json OrNull(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

History::History(std::vector<Column> columns, size_t most)
    : columns_(std::move(columns)), most_(most) {}

void History::Add(const ordered_json& row) {
  Point point{.step = row.at("step"), .rows = 1, .values = {}};
  for (const Column& column : columns_) {
    const auto value = row.find(column.name);
    point.values.push_back(value != row.end() && value->is_number() ? value->get<double>() : kGap);
  }
  if (!points_.empty() && points_.back().rows < rows_per_point_) {
    Join(points_.back(), point);
    return;
  }
  if (points_.size() == most_) {
    for (size_t i = 0; i < most_ / 2; ++i) {
      points_[i] = points_[2 * i];
      Join(points_[i], points_[2 * i + 1]);
    }
    points_.resize(most_ / 2);
    rows_per_point_ *= 2;
  }
  points_.push_back(std::move(point));
}

void History::Join(Point& point, const Point& next) const {
  const auto before = static_cast<double>(point.rows), more = static_cast<double>(next.rows);
  for (size_t i = 0; i < columns_.size(); ++i) {
    double& value = point.values[i];
    value = columns_[i].of == Of::kLast
                ? next.values[i]
                : (before * value + more * next.values[i]) / (before + more);
  }
  point.rows += next.rows;
  point.step = next.step;
}

size_t History::Index(const std::string& column) const {
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].name == column) return i;
  }
  throw InternalError("History: no column " + column);
}

ordered_json History::Steps() const {
  ordered_json steps = ordered_json::array();
  for (const Point& point : points_) steps.push_back(point.step);
  return steps;
}

ordered_json History::Values(const std::string& column) const {
  ordered_json values = ordered_json::array();
  for (const Point& point : points_) values.push_back(OrNull(point.values[Index(column)]));
  return values;
}

bool History::Has(const std::string& column) const {
  for (const Point& point : points_) {
    if (std::isfinite(point.values[Index(column)])) return true;
  }
  return false;
}

double History::Last(const std::string& column) const {
  return points_.empty() ? kGap : points_.back().values[Index(column)];
}

}  // namespace plimsoll::reports
