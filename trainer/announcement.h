// The message of a run before its first step: the model, the data, and the memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/model.h"
#include "runtime/device.h"
#include "trainer/config/run_config.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

struct Announced {
  const config::RunConfig& config;
  const models::Model& model;
  const runtime::Device& device;
  const CompiledStep& compiled;
  std::string data;  // lines about its data
  double compile_seconds = 0;
  std::string gpu = {};                        // a line about the process's GPU memory
  std::string link = {};                       // a line about the speed of copies to the host
  std::string resumed = {};                    // a line about the snapshot it continues from
  std::optional<int64_t> reserved_bytes = {};  // by the caching allocator
};

// The text, in lines.
std::string Announcement(const Announced& run);

}  // namespace plimsoll::trainer
