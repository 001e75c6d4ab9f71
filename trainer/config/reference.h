// What the schema says to people and to editors.
#pragma once

#include <string>

namespace plimsoll::config {

// docs/configuration.md.
std::string ReferenceMarkdown();

// JSON Schema (draft 7) of a configuration file, for completion and checks in editors.
std::string JsonSchema();

}  // namespace plimsoll::config
