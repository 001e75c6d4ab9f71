#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/replaced.h"
#include "reports/study_page.h"

namespace plimsoll::reports {
namespace {

using nlohmann::ordered_json;

// Sizes in pixels.
constexpr double kWidth = 880, kHeight = 480;
constexpr double kLeft = 84, kRight = 850, kTop = 64, kBottom = 418;
constexpr double kText = 12, kCharacter = 6.4, kDot = 5;

// The colours of assets/style.css and assets/theme.js.
constexpr const char *kInk = "#1c2024", *kQuiet = "#60666e", *kGrid = "#dfe2e6",
                     *kBudget = "#c4372b";
constexpr std::array kSeries = {"#3b82c4", "#f28e2b", "#46a15b", "#d95f5f", "#9a6fb0",
                                "#2fa5a0", "#b8860b", "#e377a2", "#7f8ea3", "#8c6d46"};

std::string Escape(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20; }, ' ');
  return Replaced(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

double WidthOf(const std::string& text) {
  return kCharacter * static_cast<double>(std::ranges::count_if(text, [](char c) {
           return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
         }));
}

std::string Words(double x, double y, const std::string& text, const char* color,
                  const std::string& more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\"{}>{}</text>\n", x, y, color,
                     more.empty() ? "" : " " + more, Escape(text));
}

std::string Line(double x1, double y1, double x2, double y2, const char* color,
                 const std::string& more = "") {
  return fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" fill=\"none\" stroke=\"{}\"{}/>\n",
                     x1, y1, x2, y2, color, more.empty() ? "" : " " + more);
}

// An axis that maps values to pixels between `from` and `to`. Its values are bytes or milliseconds.
class Axis {
 public:
  Axis(const ordered_json& view, const std::vector<double>& values, double from, double to)
      : label_(view.at("label")), bytes_(view.at("unit") == "bytes"), from_(from), to_(to) {
    const auto [least, most] = std::ranges::minmax(values);
    // The axis includes 0 unless all values are far from it.
    const double start = least > 0.5 * most ? least - 0.25 * (most - least) : 0;
    const double unit =
        bytes_ ? std::exp2(10 * std::floor(std::log2(std::max(most, 1.0)) / 10)) : 1;
    const double span = std::max(most - start, 0.05 * most) / unit / 6;
    const double power = std::pow(10, std::floor(std::log10(span)));
    const double digit = span / power;
    step_ = unit * power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
    unit_ = unit;
    first_ = std::floor(start / step_) * step_;
    last_ = most + 0.6 * step_;
  }

  double At(double value) const {
    return from_ + (value - first_) / (last_ - first_) * (to_ - from_);
  }
  bool Shows(double value) const { return value >= first_ && value <= last_; }
  std::vector<double> Ticks() const {
    std::vector<double> ticks;
    for (double tick = first_; tick <= last_;
         tick = first_ + step_ * static_cast<double>(ticks.size())) {
      ticks.push_back(tick);
    }
    return ticks;
  }
  std::string Format(double value) const {
    if (value == 0) return "0";
    if (!bytes_) return fmt::format("{:.6g} ms", value);
    constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    const auto unit = static_cast<size_t>(std::llround(std::log2(unit_) / 10));
    return fmt::format("{:.6g} {}", value / unit_, kUnits.at(unit));
  }
  std::string Title() const {
    return first_ == 0 ? label_ : fmt::format("{} (axis from {}, not 0)", label_, Format(first_));
  }

 private:
  const std::string label_;
  const bool bytes_;
  const double from_, to_;
  double unit_ = 1, step_ = 1, first_ = 0, last_ = 1;
};

struct Box {
  double left, top, right, bottom;
};

bool Overlap(const Box& a, const Box& b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

// Places the names of points. A name is next to its point or, where that is crowded, at the end of
// a line from it. Names are placed greedily, each at its nearest free place.
class Names {
 public:
  // `x`, `y`: the centre of a point.
  void AddDot(double x, double y) {
    taken_.push_back({x - kDot - 1, y - kDot - 1, x + kDot + 1, y + kDot + 1});
  }

  std::string Draw(double x, double y, const std::string& name) {
    const double width = WidthOf(name);
    for (const double distance : {8.0, 14.0, 22.0, 32.0, 46.0, 64.0, 86.0, 112.0, 144.0, 180.0}) {
      constexpr int kDirections = 16;
      for (int i = 0; i < kDirections; ++i) {
        // Tries the right of the point first, then angles below and above it in turn.
        const int turn = i % 2 == 0 ? i / 2 : -(i + 1) / 2;
        const double angle = 2 * std::acos(-1.0) * turn / kDirections;
        const double middle = x + std::cos(angle) * (distance + width / 2);
        const double height = y + std::sin(angle) * (distance + kText / 2);
        const Box box{middle - width / 2, height - kText / 2, middle + width / 2,
                      height + kText / 2};
        if (box.left < kLeft || box.right > kWidth - 4 || box.top < kTop || box.bottom > kBottom ||
            std::ranges::any_of(taken_, [&](const Box& other) { return Overlap(box, other); })) {
          continue;
        }
        taken_.push_back(box);
        std::string text;
        if (distance > 14) {
          text += Line(x, y, std::clamp(x, box.left, box.right), std::clamp(y, box.top, box.bottom),
                       kQuiet, "stroke-width=\"0.75\"");
        }
        return text + Words(box.left, box.bottom - 2, name, kInk);
      }
    }
    return "";  // no place is free: only the point's title has the name
  }

 private:
  std::vector<Box> taken_;
};

std::string Dot(double x, double y, const ordered_json& point, const char* color) {
  const std::string title = fmt::format(
      "<title>{}: {}, {:.4g} ms</title>", Escape(point.at("name")),
      FormatBytes(std::llround(point.at("x").get<double>())), point.at("y").get<double>());
  if (!point.value("base", false)) {
    return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\">{}</circle>\n", x,
                       y, kDot, color, title);
  }
  const double r = kDot + 2;
  return fmt::format("<path d=\"M{:.1f} {:.1f}l{} {}l{} {}l{} {}Z\" fill=\"{}\">{}</path>\n", x - r,
                     y, r, -r, r, r, -r, r, color, title);
}

// The points that no other point beats in both memory and time, from left to right.
std::vector<ordered_json> Best(const ordered_json& points) {
  std::vector<ordered_json> sorted(points.begin(), points.end()), best;
  std::ranges::sort(sorted, {}, [](const ordered_json& point) {
    return std::pair(point.at("x").get<double>(), point.at("y").get<double>());
  });
  double least = std::numeric_limits<double>::infinity();
  for (const ordered_json& point : sorted) {
    if (point.at("y").get<double>() >= least) continue;
    least = point.at("y");
    best.push_back(point);
  }
  return best;
}

std::vector<std::string> GroupsOf(const ordered_json& points) {
  std::vector<std::string> groups;
  for (const ordered_json& point : points) {
    const std::string group = point.value("group", "");
    if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  }
  return groups;
}

std::string Scales(const Axis& x, const Axis& y) {
  std::string text;
  for (const double tick : x.Ticks()) {
    text += Line(x.At(tick), kTop, x.At(tick), kBottom + 4, kGrid);
    text += Words(x.At(tick), kBottom + 18, x.Format(tick), kQuiet, "text-anchor=\"middle\"");
  }
  for (const double tick : y.Ticks()) {
    text += Line(kLeft - 4, y.At(tick), kRight, y.At(tick), kGrid);
    text += Words(kLeft - 8, y.At(tick) + 4, y.Format(tick), kQuiet, "text-anchor=\"end\"");
  }
  const double middle = (kTop + kBottom) / 2;
  text += Words((kLeft + kRight) / 2, kBottom + 38, x.Title(), kQuiet, "text-anchor=\"middle\"");
  return text +
         Words(16, middle, y.Title(), kQuiet,
               fmt::format("text-anchor=\"middle\" transform=\"rotate(-90 16 {})\"", middle));
}

std::string Budgets(const ordered_json& lines, const Axis& x) {
  std::string text;
  for (const ordered_json& line : lines) {
    const auto value = line.at("value").get<double>();
    if (!x.Shows(value)) continue;
    text += Line(x.At(value), kTop, x.At(value), kBottom, kBudget, "stroke-dasharray=\"6 4\"");
    text += Words(x.At(value), kTop - 5, "budget " + FormatBytes(std::llround(value)), kBudget,
                  "text-anchor=\"middle\"");
  }
  return text;
}

std::string Legend(const std::vector<std::string>& groups) {
  if (groups.size() < 2) return "";
  std::string text;
  double x = kLeft;
  for (size_t i = 0; i < groups.size(); ++i) {
    text += fmt::format("<circle cx=\"{:.1f}\" cy=\"{}\" r=\"{}\" fill=\"{}\"/>\n", x, kHeight - 10,
                        kDot, kSeries[i % kSeries.size()]);
    text += Words(x + 10, kHeight - 6, groups[i], kInk);
    x += 30 + WidthOf(groups[i]);
    if (x > kRight) break;
  }
  return text;
}

std::string Points(const ordered_json& points, const Axis& x, const Axis& y) {
  const std::vector<std::string> groups = GroupsOf(points);
  std::string spreads, dots, names, front;
  Names places;
  for (const ordered_json& point : points) {
    const double at_x = x.At(point.at("x")), at_y = y.At(point.at("y"));
    const auto group = std::ranges::find(groups, point.value("group", "")) - groups.begin();
    const char* const color = kSeries[static_cast<size_t>(group) % kSeries.size()];
    if (point.contains("y_low")) {
      const double top = std::max(kTop, y.At(point.at("y_high")));
      spreads += Line(at_x, std::min(kBottom, y.At(point.at("y_low"))), at_x, top, color,
                      "stroke-width=\"1.5\" stroke-opacity=\"0.5\"");
    }
    dots += Dot(at_x, at_y, point, color);
    places.AddDot(at_x, at_y);
  }
  for (const ordered_json& point : points) {
    names += places.Draw(x.At(point.at("x")), y.At(point.at("y")), point.at("name"));
  }
  for (const ordered_json& point : Best(points)) {
    front += fmt::format("{}{:.1f} {:.1f}", front.empty() ? "M" : "L", x.At(point.at("x")),
                         y.At(point.at("y")));
  }
  return fmt::format(
             "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.25\" "
             "stroke-dasharray=\"3 3\"/>\n",
             front, kQuiet) +
         spreads + dots + names + Legend(groups);
}

std::vector<double> Numbers(const ordered_json& objects, const char* key) {
  std::vector<double> numbers;
  for (const ordered_json& object : objects) {
    if (object.contains(key)) numbers.push_back(object.at(key));
  }
  return numbers;
}

std::string Chart(const ordered_json& view) {
  const ordered_json& points = view.at("points");
  std::vector<double> across = Numbers(points, "x");
  const double most = std::ranges::max(across);
  // Budgets and spreads far outside the points' range don't extend the axes.
  for (const double budget : Numbers(view.at("lines"), "value")) {
    if (budget < 1.5 * most) across.push_back(budget);
  }
  std::vector<double> up = Numbers(points, "y");
  const double highest = 1.25 * std::ranges::max(up);
  for (const double low : Numbers(points, "y_low")) up.push_back(low);
  for (const double high : Numbers(points, "y_high")) up.push_back(std::min(high, highest));
  const Axis x(view.at("x"), across, kLeft, kRight), y(view.at("y"), up, kBottom, kTop);
  return Scales(x, y) + Budgets(view.at("lines"), x) + Points(points, x, y);
}

}  // namespace

std::string FrontPicture(const ordered_json& study) {
  const ordered_json view = FrontView(study);
  return fmt::format(
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
             "viewBox=\"0 0 {0} {1}\" font-family=\"'Helvetica Neue', Helvetica, Arial, "
             "sans-serif\" font-size=\"{2}\">\n"
             "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
             kWidth, kHeight, kText) +
         Words(14, 24, study.at("title"), kInk, "font-size=\"15\" font-weight=\"bold\"") +
         (view.is_null() ? Words(14, 48, "No row has a memory and a time yet.", kQuiet)
                         : Chart(view)) +
         "</svg>\n";
}

}  // namespace plimsoll::reports
