#include "reports/study_page.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "reports/page.h"

namespace plimsoll::reports {
namespace {

using nlohmann::ordered_json;

bool Has(const ordered_json& row, const char* key) {
  return row.contains(key) && !row.at(key).is_null();
}

ordered_json Line(const ordered_json& row, const char* key) {
  if (!Has(row, key)) return nullptr;
  return {{"label", "budget"}, {"value", row.at(key)}};
}

void AddBars(const ordered_json& study, ordered_json& views) {
  ordered_json bars = ordered_json::array();
  for (const ordered_json& row : study.at("rows")) {
    if (!Has(row, "bytes_by_role")) continue;
    bars.push_back({{"name", row.at("name")},
                    {"parts", row.at("bytes_by_role")},
                    {"line", Line(row, "arena_budget_bytes")}});
  }
  if (bars.empty()) return;
  views.push_back({{"type", "bars"},
                   {"title", "Memory at the peak, by role"},
                   {"unit", "bytes"},
                   {"bars", std::move(bars)}});
}

void AddTimelines(const ordered_json& study, ordered_json& views) {
  ordered_json variants = ordered_json::array();
  for (const ordered_json& row : study.at("rows")) {
    if (!Has(row, "timeline")) continue;
    variants.push_back({{"name", row.at("name")},
                        {"timeline", row.at("timeline")},
                        {"line", Line(row, "arena_budget_bytes")}});
  }
  if (variants.empty()) return;
  views.push_back(
      {{"type", "timeline"}, {"title", "Memory over a step"}, {"variants", std::move(variants)}});
}

// A curve, and the names of the rows that have it.
struct SharedCurve {
  const ordered_json* curve = nullptr;
  std::vector<std::string> rows;
};

// `member` is the member of the rows that holds the curve.
std::vector<SharedCurve> CurvesOf(const ordered_json& study, const char* member) {
  std::vector<SharedCurve> curves;
  for (const ordered_json& row : study.at("rows")) {
    if (!Has(row, member)) continue;
    const ordered_json& curve = row.at(member);
    auto equal = std::find_if(curves.begin(), curves.end(),
                              [&](const SharedCurve& other) { return *other.curve == curve; });
    if (equal == curves.end()) equal = curves.insert(curves.end(), {&curve, {}});
    equal->rows.push_back(row.at("name").get<std::string>());
  }
  return curves;
}

std::string Joined(const std::vector<std::string>& names, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

// What a legend has room for.
std::string NameOf(const SharedCurve& curve) {
  constexpr size_t kShown = 4;
  return (curve.rows.size() > 1 ? "equal: " : "") + Joined(curve.rows, kShown);
}

// Says what lines cannot show: whose curves are the same, and what bands are.
std::string NoteOf(const std::vector<SharedCurve>& curves) {
  std::string note;
  const auto band = [](const SharedCurve& curve) { return curve.curve->contains("low"); };
  if (std::any_of(curves.begin(), curves.end(), band)) {
    note = "Bands reach from the least to the most of a row's seeds, around their mean.";
  }
  for (const SharedCurve& curve : curves) {
    if (curve.rows.size() < 2) continue;
    note += (note.empty() ? "" : " ") + std::string("Equal to the bit: ") +
            Joined(curve.rows, curve.rows.size()) + ".";
  }
  return note;
}

// `member` is the member of the rows that holds the curve.
void AddCurves(const ordered_json& study, const char* member, const char* title, bool few,
               ordered_json& views) {
  const std::vector<SharedCurve> curves = CurvesOf(study, member);
  ordered_json series = ordered_json::array();
  for (const SharedCurve& shared : curves) {
    const ordered_json& curve = *shared.curve;
    ordered_json line = {{"name", NameOf(shared)},
                         {"x", curve.at("step")},
                         {"y", curve.at("loss")},
                         {"points", few}};
    if (curve.contains("low") && curve.contains("high")) {
      line["y_low"] = curve.at("low");
      line["y_high"] = curve.at("high");
    }
    series.push_back(std::move(line));
  }
  if (series.empty()) return;
  views.push_back({{"type", "lines"},
                   {"title", title},
                   {"note", NoteOf(curves)},
                   {"wide", true},
                   {"smoothing", !few},
                   {"x", {{"label", "step"}, {"unit", "count"}}},
                   {"y", {{"label", "loss"}, {"unit", "number"}}},
                   {"series", std::move(series)}});
}

bool Known(const ordered_json& row, const char* key) {
  return row.contains(key) && !row.at(key).is_null();
}

// Each budget once.
ordered_json BudgetLines(const ordered_json& study) {
  ordered_json lines = ordered_json::array();
  for (const ordered_json& row : study.at("rows")) {
    if (!Known(row, "budget_bytes")) continue;
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
    if (!Known(row, "peak_bytes") || !Known(row, "step_ms")) continue;
    if (row.value("status", "done") != "done") continue;
    ordered_json point = {
        {"name", row.at("name")}, {"x", row.at("peak_bytes")}, {"y", row.at("step_ms")}};
    if (Known(row, "step_ms_low") && Known(row, "step_ms_high")) {
      point["y_low"] = row.at("step_ms_low");
      point["y_high"] = row.at("step_ms_high");
    }
    if (Known(row, "joules_per_token")) {
      point["z"] = row.at("joules_per_token");
      has_energy = true;
    }
    for (const char* key : {"group", "base", "note"}) {
      if (Known(row, key)) point[key] = row.at(key);
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
  // The table's rows keep only the members that it shows.
  for (ordered_json& row : page.views.back()["rows"]) {
    for (const char* key : {"bytes_by_role", "timeline", "curve", "eval_curve"}) row.erase(key);
  }
  AddBars(study, page.views);
  AddTimelines(study, page.views);
  AddCurves(study, "curve", "Loss", false, page.views);
  AddCurves(study, "eval_curve", "Held-out loss", true, page.views);
  if (study.contains("facts")) {
    page.views.push_back({{"type", "facts"}, {"title", "Facts"}, {"rows", study.at("facts")}});
  }
  return Render(page);
}

}  // namespace plimsoll::reports
