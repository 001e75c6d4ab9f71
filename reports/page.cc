#include "reports/page.h"

#include "reports/assets.h"

namespace plimsoll::reports {
namespace {

std::string EscapeHtml(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

// JSON that is safe in a script element: without any "<" there is no "</script" or "<!--".
std::string ScriptJson(const nlohmann::ordered_json& value) {
  using Json = nlohmann::ordered_json;
  std::string escaped;
  for (char c : value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace)) {
    if (c == '<') {
      escaped += "\\u003c";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

void AppendElement(std::string& html, std::string_view begin, std::string_view content,
                   std::string_view end) {
  html += begin;
  html += content;
  html += end;
  html += '\n';
}

}  // namespace

std::string Render(const Page& page) {
  nlohmann::ordered_json data = {
      {"title", page.title}, {"subtitle", page.subtitle}, {"views", page.views}};
  if (page.reload_seconds) data["reload_s"] = *page.reload_seconds;
  std::string html =
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      // The page requests nothing from the network, whatever its data is.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n";
  AppendElement(html, "<title>", EscapeHtml(page.title), "</title>");
  AppendElement(html, "<style>\n", kStyle, "</style>");
  AppendElement(html,
                "<body>\n<main id=\"page\"></main>\n<script type=\"application/json\" id=\"data\">",
                ScriptJson(data), "</script>");
  AppendElement(html, "<script>\n", kChartLibrary, "</script>");
  AppendElement(html, "<script>\n", kScript, "</script>");
  return html;
}

}  // namespace plimsoll::reports
