// Self-contained HTML pages: data as JSON, and views that draw it (reports/README.md lists them).
// A page opens from disk without a network, in dark and light, and prints.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace plimsoll::reports {

struct Page {
  std::string title;
  std::string subtitle;
  // In the order in which they stand on the page: {"type": "lines", "title": …, …}.
  nlohmann::ordered_json views = nlohmann::ordered_json::array();
  // The file is about to change: a browser loads it again every so many seconds.
  std::optional<int> reload_seconds = {};
};

// The HTML document. Nothing of the data can end the element that holds it.
std::string Render(const Page& page);

}  // namespace plimsoll::reports
