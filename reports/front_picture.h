// The front of a study as a picture of its own, for documents.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace plimsoll::reports {

// An SVG document that needs nothing besides, on white: FrontView() of the study (study_page.h)
// under its title, with the rows' names, the spreads of times and the budgets. A study without
// points is a picture that says so.
std::string FrontPicture(const nlohmann::ordered_json& study);

}  // namespace plimsoll::reports
