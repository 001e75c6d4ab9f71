// The output of other programs that serves as a row: a line of JSON with the members of
// summary.json.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "studies/results.h"

namespace plimsoll::studies {

// The part kept of an output file, and the longest line that can be a row.
constexpr size_t kKeptOutput = size_t{1} << 20;

// The last line of the file that is a JSON object with step_ms, or null; needs no more memory than
// kKeptOutput for a file of any length.
nlohmann::ordered_json LastObject(const std::string& path);

// UserError, naming the member, for an invalid figure: step_ms, the milliseconds of a step, a
// number or a list, must be present, finite and above 0; so must other such figures, if present.
void CheckOutput(const nlohmann::ordered_json& object);

// The run that the object describes.
Run RunOf(const nlohmann::ordered_json& object, const std::string& seed);

// The last `bytes` bytes of the file, from the start of a line; ReadHead: the first.
std::string ReadTail(const std::string& path, size_t bytes = kKeptOutput);
std::string ReadHead(const std::string& path, size_t bytes = kKeptOutput);

// Truncates the file to its tail.
void KeepTail(const std::string& path);

}  // namespace plimsoll::studies
