// The page of a study, which compares many runs of one model, and the picture of its front.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace plimsoll::reports {

// Builds the HTML document of a study, which is given as
//
//   {"title": "GPT-2 124M: one technique at a time",
//    "subtitle": "20 steps each, NVIDIA H200, plimsoll 0.1.0",           may be absent
//    "warning": "Times are not to be trusted: …",       shown at the top; may be absent
//    "facts": [["program", "plimsoll 0.1.0 (87d1620)"], ["driver", "580.159"]],   may be absent
//    "columns": [{"key": "name", "label": "variant"},
//                {"key": "step_ms", "label": "step", "unit": "ms"},
//                {"key": "tokens_per_s", "label": "tokens/s", "unit": "count"}, …],
//    "rows": [{"name": "block", "step_ms": 120.5, "peak_bytes": …, …}, …]}
//
// `columns` are the columns of the table, in order. `key` is a member of the rows. `unit` is one of
// "bytes", "ms", "joules", "count" (12.3k), "integer", "percent" (of a share: 0.5 is shown as 50
// %), "number" (formatted like losses) and "text" (the default). `deviation` and `runs` name
// members that are shown next to the value, as in 2.806 ± 0.012 (5): the mean of 5 runs, and their
// standard deviation, which determines how both are rounded. Rows may lack a column, or have null
// for it. Rows may also have these members:
//
//   "name": unique among the rows           labels the row in all pictures; required
//   "peak_bytes", "step_ms"                 a point of the memory–speed front
//   "step_ms_low", "step_ms_high"           its spread, drawn as a bar through the point
//   "joules_per_token"                      a third axis of the front, which can then be shown in
//                                           several ways
//   "group": "bf16"                         points of a group have one colour
//   "base": true                            the row that others are compared with
//   "marks": {"speedup": "cannot tell: …"}  small print next to the values of columns
//   "note": "not within memory.budget: …"   shown with the row, mostly if it has no numbers
//   "budget_bytes": 25769803776             a line next to "peak_bytes"; rows may share one
//   "arena_budget_bytes": 24662507520       the arena's part of it, for bars and timelines
//   "bytes_by_role": {"parameter": …, …}    the row's bar of memory by role
//   "timeline": {…}                         MemoryStack() of the row's memory_timeline.json
//   "status": "unfinished"                  if not "done", the row is no point of the front
//   "curve": {"step": [0, 1, …], "loss": [10.9, …]}
//                                           with "low" and "high": a band of seeds around it
//   "eval_curve": …                         the same for the held-out loss
//
// The page shows the front, the table, the bars, the timelines and the curves, if it has data for
// them. Rows with equal curves share one curve, which says so: "equal: none, block".
std::string StudyPage(const nlohmann::ordered_json& study);

// The first picture of a study, memory against time: the page's view "front" (assets/front.js).
// null if no finished row has both figures.
nlohmann::ordered_json FrontView(const nlohmann::ordered_json& study);

// The front of a study as a separate picture for documents. It is a self-contained SVG document on
// a white background: FrontView() of the study under its title, with the rows' names, the spreads
// of times and the budgets. For a study without points, the picture says that it has none.
std::string FrontPicture(const nlohmann::ordered_json& study);

}  // namespace plimsoll::reports
