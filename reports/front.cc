#include "reports/front.h"

#include <algorithm>
#include <utility>

namespace plimsoll::reports {
namespace {

using nlohmann::ordered_json;

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

}  // namespace plimsoll::reports
