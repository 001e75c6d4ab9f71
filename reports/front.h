// Memory against time: the first picture of a study.
#pragma once

#include <nlohmann/json.hpp>

namespace plimsoll::reports {

// The view "front" of a page (assets/front.js) of a study (study_page.h); null if no row that is
// done has both figures.
nlohmann::ordered_json FrontView(const nlohmann::ordered_json& study);

}  // namespace plimsoll::reports
