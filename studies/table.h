// Formats a study for people, for papers and for programs: the table on the terminal, and files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "studies/study_json.h"

namespace plimsoll::studies {

// The table, followed by the laws.
std::string StudyText(const nlohmann::ordered_json& json);

// The study as a file of this format. "json": as study.json; "csv": all members of the rows, or
// those of chosen columns; "tex": the table for LaTeX; "svg": memory against step time
// (reports/front_picture.h); "html": the page, with a picture of each row's memory over a step.
std::string StudyFile(std::string_view format, const nlohmann::ordered_json& json,
                      const StudyFacts& study);

// `text` with LaTeX's special characters escaped, on one line.
std::string LatexText(const std::string& text);

}  // namespace plimsoll::studies
