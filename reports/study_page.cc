#include "reports/study_page.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/spelling.h"
#include "reports/page.h"

namespace plimsoll::reports {
namespace {

using nlohmann::ordered_json;

bool Has(const ordered_json& row, const char* key) {
  return row.contains(key) && !row.at(key).is_null();
}

// Adds a view with one picture for each row that has `member`. `list` is the view's member for the
// pictures, and `part` the picture's member for the row's `member`.
void AddPictures(const ordered_json& study, const char* member, const char* list, const char* part,
                 ordered_json view, ordered_json& views) {
  for (const ordered_json& row : study.at("rows")) {
    if (!Has(row, member)) continue;
    ordered_json line = nullptr;
    if (Has(row, "arena_budget_bytes")) {
      line = {{"label", "budget"}, {"value", row.at("arena_budget_bytes")}};
    }
    view[list].push_back({{"name", row.at("name")}, {part, row.at(member)}, {"line", line}});
  }
  if (view.contains(list)) views.push_back(std::move(view));
}

// Adds a view of the rows' curves, which are in `member` of each row. Rows with equal curves share
// one curve.
void AddCurves(const ordered_json& study, const char* member, const char* title, bool few,
               ordered_json& views) {
  // Each curve with its rows.
  std::vector<std::pair<const ordered_json*, std::vector<std::string>>> curves;
  for (const ordered_json& row : study.at("rows")) {
    if (!Has(row, member)) continue;
    const ordered_json& curve = row.at(member);
    auto equal = std::ranges::find_if(curves, [&](const auto& of) { return *of.first == curve; });
    if (equal == curves.end()) equal = curves.insert(curves.end(), {&curve, {}});
    equal->second.push_back(row.at("name").get<std::string>());
  }
  if (curves.empty()) return;
  constexpr size_t kShown = 4;  // a legend has room for this number of names
  ordered_json series = ordered_json::array();
  std::string bands, equal;
  for (const auto& [curve, rows] : curves) {
    series.push_back({{"name", (rows.size() > 1 ? "equal: " : "") + ListOf(rows, kShown)},
                      {"x", curve->at("step")},
                      {"y", curve->at("loss")},
                      {"points", few}});
    if (curve->contains("low")) {
      series.back()["y_low"] = curve->at("low");
      series.back()["y_high"] = curve->at("high");
      bands = " Bands reach from the least to the most of a row's seeds, around their mean.";
    }
    if (rows.size() > 1) equal += " Equal to the bit: " + ListOf(rows, rows.size()) + ".";
  }
  // The note says what lines cannot show.
  const std::string note = bands + equal;
  views.push_back({{"type", "lines"},
                   {"title", title},
                   {"note", note.substr(note.empty() ? 0 : 1)},
                   {"wide", true},
                   {"smoothing", !few},
                   {"x", {{"label", "step"}, {"unit", "count"}}},
                   {"y", {{"label", "loss"}, {"unit", "number"}}},
                   {"series", std::move(series)}});
}

// One line for each distinct budget.
ordered_json BudgetLines(const ordered_json& study) {
  ordered_json lines = ordered_json::array();
  for (const ordered_json& row : study.at("rows")) {
    if (!Has(row, "budget_bytes")) continue;
    const ordered_json line = {{"label", "budget"}, {"value", row.at("budget_bytes")}};
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  }
  return lines;
}

}  // namespace

ordered_json FrontView(const ordered_json& study) {
  ordered_json points = ordered_json::array();
  bool has_energy = false;
  for (const ordered_json& row : study.at("rows")) {
    if (!Has(row, "peak_bytes") || !Has(row, "step_ms")) continue;
    if (row.value("status", "done") != "done") continue;
    ordered_json point = {
        {"name", row.at("name")}, {"x", row.at("peak_bytes")}, {"y", row.at("step_ms")}};
    if (Has(row, "step_ms_low") && Has(row, "step_ms_high")) {
      point["y_low"] = row.at("step_ms_low");
      point["y_high"] = row.at("step_ms_high");
    }
    if (Has(row, "joules_per_token")) {
      point["z"] = row.at("joules_per_token");
      has_energy = true;
    }
    for (const char* key : {"group", "base", "note"}) {
      if (Has(row, key)) point[key] = row.at(key);
    }
    points.push_back(std::move(point));
  }
  if (points.empty()) return nullptr;
  ordered_json view = {{"type", "front"},
                       {"title", "Memory and speed"},
                       {"note",
                        "Smaller is better on every axis. The line joins the variants that no "
                        "other beats on both axes shown."},
                       {"x", {{"label", "peak memory"}, {"unit", "bytes"}}},
                       {"y", {{"label", "time of a step"}, {"unit", "ms"}}},
                       {"lines", BudgetLines(study)},
                       {"points", std::move(points)}};
  if (has_energy) view["z"] = {{"label", "energy of a token"}, {"unit", "joules"}};
  return view;
}

std::string StudyPage(const ordered_json& study) {
  Page page{study.at("title"), study.value("subtitle", "")};
  if (Has(study, "warning")) {
    page.views.push_back({{"type", "notice"}, {"text", study.at("warning")}});
  }
  if (ordered_json front = FrontView(study); !front.is_null()) {
    page.views.push_back(std::move(front));
  }
  page.views.push_back({{"type", "table"},
                        {"title", "Variants"},
                        {"choice", true},
                        {"columns", study.at("columns")},
                        {"rows", study.at("rows")}});
  // Removes members that the table doesn't show from its rows.
  for (ordered_json& row : page.views.back()["rows"]) {
    for (const char* key : {"bytes_by_role", "timeline", "curve", "eval_curve"}) row.erase(key);
  }
  AddPictures(study, "bytes_by_role", "bars", "parts",
              {{"type", "bars"}, {"title", "Memory at the peak, by role"}, {"unit", "bytes"}},
              page.views);
  AddPictures(study, "timeline", "variants", "timeline",
              {{"type", "timeline"}, {"title", "Memory over a step"}}, page.views);
  AddCurves(study, "curve", "Loss", false, page.views);
  AddCurves(study, "eval_curve", "Held-out loss", true, page.views);
  if (study.contains("facts")) {
    page.views.push_back({{"type", "facts"}, {"title", "Facts"}, {"rows", study.at("facts")}});
  }
  return Render(page);
}

}  // namespace plimsoll::reports
