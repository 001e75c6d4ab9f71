// What a run tells before its first step: what is trained, on which data, in how much memory.
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
  std::string data;  // lines on what it reads
  double compile_seconds = 0;
  std::string gpu = {};                        // a line on what the process holds of it
  std::string resumed = {};                    // a line on the snapshot it goes on from
  std::optional<int64_t> reserved_bytes = {};  // by the caching allocator
};

// Lines.
std::string Announcement(const Announced& run);

}  // namespace plimsoll::trainer
