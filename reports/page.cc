#include "reports/page.h"

#include <fmt/format.h>

#include "base/replaced.h"
#include "reports/assets.h"

namespace plimsoll::reports {
namespace {

// JSON that is safe in a script element: it has no "<", and so no "</script" or "<!--".
std::string ScriptJson(const nlohmann::ordered_json& value) {
  using Json = nlohmann::ordered_json;
  return Replaced(value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace),
                  {{"<", "\\u003c"}});
}

}  // namespace

std::string Render(const Page& page) {
  nlohmann::ordered_json data = {
      {"title", page.title}, {"subtitle", page.subtitle}, {"views", page.views}};
  if (page.reload_seconds) data["reload_s"] = *page.reload_seconds;
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      // Forbids the page to request anything from the network, whatever its data is.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n"
      "<body>\n<main id=\"page\"></main>\n<script type=\"application/json\" "
      "id=\"data\">{}</script>\n"
      "<script>\n{}</script>\n<script>\n{}</script>\n",
      Replaced(page.title, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}}), kStyle,
      ScriptJson(data), kChartLibrary, kScript);
}

}  // namespace plimsoll::reports
