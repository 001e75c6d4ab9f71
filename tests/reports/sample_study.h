// A study with everything that a page can show of one: groups, spreads, a row without numbers,
// names that look like HTML.
#pragma once

#include <nlohmann/json.hpp>

namespace plimsoll::reports {

nlohmann::ordered_json SampleStudy();

// A front of thirteen points, and their energy.
nlohmann::ordered_json CrowdedStudy();

}  // namespace plimsoll::reports
