// What a run file leaves open besides which activations are kept, and the runs that it may become.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/model.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// A key that may be `auto`: a place of parameters, or a technique that changes no number.
struct OpenKey {
  const char* name;  // "memory.weights"
  bool (*open)(const config::RunConfig& config);
  bool (*used)(const config::RunConfig& config);  // on the host, or true
  void (*set)(config::RunConfig& config, bool used);
  void (*leave_open)(config::RunConfig& config);
  const char *used_value, *unused_value;  // "host", "device"
  // Of plans that use it, and of those that don't: "weights on host", "weights on device".
  const char *used_text, *unused_text;
};
// In the order in which they are listed.
const std::vector<OpenKey>& OpenKeys();
bool IsPlace(const OpenKey& key);

// The first key whose value is `auto`, of these and the others that the solver decides; nullptr:
// none. Not a place where there is one memory: `auto` means here then.
const char* FirstOpen(const config::RunConfig& config);

// Why an open key cannot be used in this run, or would have no effect; empty: it can.
std::string WhyUnused(const OpenKey& key, const config::RunConfig& config);

// The run once for each combination of its open choices, with only checkpointing.policy left open;
// those that use fewer of the keys come first. Runs that have something on the host come once more
// with a quarter, half and three quarters of the blocks (memory.host_blocks), unless the file gives
// their number or blocks come first. Combinations without an effect are left out. A cut
// of the batch (train.micro_batch: auto) has one micro-step after another.
std::vector<config::RunConfig> Alternatives(const config::RunConfig& config,
                                            const models::Model& model);

// The choices of `made` that `open` leaves open: "4 × 8 sequences, state on host"; and as a run
// file gives them: {"train.micro_batch": 8, "train.accumulate": 4, "optimizer.place": "host"}.
std::string ChoicesText(const config::RunConfig& open, const config::RunConfig& made);
nlohmann::ordered_json ChoicesJson(const config::RunConfig& open, const config::RunConfig& made);

}  // namespace plimsoll::trainer
