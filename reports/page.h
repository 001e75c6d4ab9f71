// Self-contained HTML pages: data as JSON, and views that draw it (reports/README.md lists the
// views). A page opens from disk without a network, in dark and light mode, and can be printed.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace plimsoll::reports {

struct Page {
  std::string title;
  std::string subtitle;
  // The views in the order of the page: {"type": "lines", "title": …, …}.
  nlohmann::ordered_json views = nlohmann::ordered_json::array();
  // Set if the file will change: browsers reload it at this interval in seconds.
  std::optional<int> reload_seconds = {};
};

// Renders the HTML document. No data can end the element that contains it.
std::string Render(const Page& page);

}  // namespace plimsoll::reports
