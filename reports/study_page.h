// The page of a study, many runs of one model side by side, and the picture of its front.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace plimsoll::reports {

// The HTML document of a study given as
//
//   {"title": "GPT-2 124M: one technique at a time",
//    "subtitle": "20 steps each, NVIDIA H200, plimsoll 0.1.0",           may be absent
//    "warning": "Times are not to be trusted: …",       above all else; may be absent
//    "facts": [["program", "plimsoll 0.1.0 (87d1620)"], ["driver", "580.159"]],   may be absent
//    "columns": [{"key": "name", "label": "variant"},
//                {"key": "step_ms", "label": "step", "unit": "ms"},
//                {"key": "tokens_per_s", "label": "tokens/s", "unit": "count"}, …],
//    "rows": [{"name": "block", "step_ms": 120.5, "peak_bytes": …, …}, …]}
//
// `columns` are those of the table, in order: `key` is a member of the rows, `unit` one of "bytes",
// "ms", "joules", "count" (12.3k), "integer", "percent" (a share: 0.5 is shown as 50 %), "number"
// (formatted like losses) and "text" (the default). `deviation` and `runs` name members that are
// shown next to the value: 2.806 ± 0.012 (5), the mean of 5 runs and their standard deviation, by
// which both are rounded. Rows may lack a column, or have null there. Rows may also have these
// members:
//
//   "name": unique among the rows           labels the row in all pictures; required
//   "peak_bytes", "step_ms"                 a point of the memory–speed front
//   "step_ms_low", "step_ms_high"           its spread, drawn as a bar through the point
//   "joules_per_token"                      a third axis of the front, which can then be shown in
//                                           several ways
//   "group": "bf16"                         points of a group have one colour
//   "base": true                            the row that others are compared with
//   "marks": {"speedup": "cannot tell: …"}  small words beside the values of columns
//   "note": "not within memory.budget: …"   shown with the row, above all if it has no numbers
//   "budget_bytes": 25769803776             a line next to "peak_bytes"; rows may share one
//   "arena_budget_bytes": 24662507520       what that leaves for the arena: for bar and timeline
//   "bytes_by_role": {"parameter": …, …}    its bar of memory by role
//   "timeline": {…}                         MemoryStack() of its memory_timeline.json
//   "status": "unfinished"                  if not "done", the row is no point of the front
//   "curve": {"step": [0, 1, …], "loss": [10.9, …]}
//                                           with "low" and "high": a band around it, of seeds
//   "eval_curve": …                         the same for the held-out loss
//
// The page shows the front, the table, the bars, the timelines and the curves, each if there is
// data for it. Rows with equal curves share one, which says so: "equal: none, block".
std::string StudyPage(const nlohmann::ordered_json& study);

// Memory against time, the first picture of a study: the view "front" of a page (assets/front.js);
// null if no row that is done has both figures.
nlohmann::ordered_json FrontView(const nlohmann::ordered_json& study);

// The front of a study as a picture of its own, for documents: an SVG document that needs nothing
// besides, on white: FrontView() of the study under its title, with the rows' names, the
// spreads of times and the budgets. A study without points is a picture that says so.
std::string FrontPicture(const nlohmann::ordered_json& study);

}  // namespace plimsoll::reports
