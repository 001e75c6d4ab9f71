// What another program than ours prints as its row: a line of JSON with the members of
// summary.json.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "studies/results.h"

namespace plimsoll::studies {

// What is kept of a file of output, and the longest line that can be a row.
constexpr size_t kKeptOutput = size_t{1} << 20;

// The last line of the file that is a JSON object with step_ms, or null; needs no more memory than
// kKeptOutput, however long the file is.
nlohmann::ordered_json LastObject(const std::string& path);

// UserError, naming the member, where a figure cannot be one: step_ms, the milliseconds of a step,
// a number or a list, must be there, finite and above 0; so must others of kind, where they are.
void CheckOutput(const nlohmann::ordered_json& object);

// The run that such an object tells of.
Run RunOf(const nlohmann::ordered_json& object, const std::string& seed);

// The last bytes of the file, at most so many, from the start of a line; or the first.
std::string ReadTail(const std::string& path, size_t bytes = kKeptOutput);
std::string ReadHead(const std::string& path, size_t bytes = kKeptOutput);

// Leaves only the file's tail in it.
void KeepTail(const std::string& path);

}  // namespace plimsoll::studies
