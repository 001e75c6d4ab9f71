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
  std::string data;  // text about the run's data
  double compile_seconds = 0;
  std::string gpu = {};   // text about the process's GPU memory
  std::string link = {};  // text about the speed of copies to the host
  // Text about the snapshot from which the run continues.
  std::string resumed = {};
  // Bytes that the caching allocator reserves; nullopt without it.
  std::optional<int64_t> reserved_bytes = {};
};

// The lines after the header, printed when the first step can begin.
std::string Announcement(const Announced& run);

}  // namespace plimsoll::trainer
