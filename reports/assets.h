// Texts that every page contains: the charting library, and our own style and scripts
// (reports/assets/).
#pragma once

#include <string_view>

namespace plimsoll::reports {

extern const std::string_view kChartLibrary;  // Chart.js
extern const std::string_view kStyle;
extern const std::string_view kScript;  // scripts of all views, in the order in which they run

}  // namespace plimsoll::reports
