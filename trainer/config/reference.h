// Writes the schema as documentation and as a JSON schema for editors.
#pragma once

#include <string>

namespace plimsoll::config {

// The text of docs/configuration.md.
std::string ReferenceMarkdown();

// JSON Schema (draft 7) of a configuration file, for completion and checks in editors.
std::string JsonSchema();

}  // namespace plimsoll::config
