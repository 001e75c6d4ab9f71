// The schema of keys as a JSON schema for editors.
#pragma once

#include <string>

namespace plimsoll::config {

// JSON Schema (draft 7) of a configuration file, for completion and checks in editors.
std::string JsonSchema();

}  // namespace plimsoll::config
