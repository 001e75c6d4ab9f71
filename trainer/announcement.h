// The messages of a run before its first step: first the header, then lines about the data and the
// memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// The first line: program, model, device and directory.
std::string Header(const config::RunConfig& config, const models::Model& model);

struct Announced {
  const CompiledStep& compiled;
  std::string data;  // lines about the run's data
  double compile_seconds = 0;
  std::string gpu = {};   // a line about the process's GPU memory
  std::string link = {};  // a line about the speed of copies to the host
  // A line about the snapshot from which the run continues.
  std::string resumed = {};
  std::optional<int64_t> reserved_bytes = {};  // reserved by the caching allocator, if it is used
};

// The lines after the header, printed when the first step can begin.
std::string Announcement(const Announced& run);

}  // namespace plimsoll::trainer
