// A study for people, for papers and for programs: the terminal's table and files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "studies/study_json.h"

namespace plimsoll::studies {

// The table, with the laws below it.
std::string StudyText(const nlohmann::ordered_json& json);

// The study as a file of this format: "json", as study.json has it; "csv": all members of the rows,
// or of chosen columns theirs; "tex": the table for LaTeX; "svg": memory against the time of a step
// (reports/front_picture.h); "html": the page, with a picture of each row's memory over a step.
std::string StudyFile(std::string_view format, const nlohmann::ordered_json& json,
                      const StudyFacts& study);

// `text` with LaTeX's special characters escaped, on one line.
std::string LatexText(const std::string& text);

}  // namespace plimsoll::studies
