// Self-contained HTML pages: data as JSON, and views that draw it (reports/README.md lists them). A
// page opens from disk without a network, in dark and light mode, and can be printed.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace plimsoll::reports {

struct Page {
  std::string title;
  std::string subtitle;
  // In the order of the page: {"type": "lines", "title": …, …}.
  nlohmann::ordered_json views = nlohmann::ordered_json::array();
  // The file will change: a browser reloads it at this interval in seconds.
  std::optional<int> reload_seconds = {};
};

// The HTML document. No data can end the element that holds it.
std::string Render(const Page& page);

}  // namespace plimsoll::reports
