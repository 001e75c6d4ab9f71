// What a run file may say in each section, for the reference.
#pragma once

#include <string>

namespace plimsoll::config {

// Lines of a run file with keys of the section, without the last line's end.
std::string SectionExample(const std::string& section);

}  // namespace plimsoll::config
