// Measures the speed of the link between GPU and host, for runs that may keep weights, gradients,
// optimizer state or activations on the host. All ranks measure at the same time, because they
// share the host's memory; the slowest rank's speed counts. The speed is stored in
// ${XDG_CACHE_HOME:-~/.cache}/plimsoll/link-NAME.json (link-NAME-N-ranks.json for N ranks). The
// file is checked before it is used; a bad file is ignored with a warning and replaced.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "memory/device_rates.h"
#include "runtime/cuda/measured_rates.h"
#include "runtime/ranks/world.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// Measures the link, unless its speed is known or not needed. The speed is not needed if the run
// keeps nothing on the host, or if the run's times are not from this machine (memory.calibrate,
// memory.calibration, --device). All ranks of the run call this before anything uses the GPU.
// Measures nothing if the number of ranks in `ranks` differs from the run's.
void MeasureLink(
    const config::RunConfig& config, runtime::RankGroup& ranks,
    const std::function<std::optional<runtime::HostLink>()>& measure = runtime::MeasureHostLink);

// The link's speed as measured earlier for runs on the same GPU with the same number of ranks;
// nullopt if no speed is stored.
std::optional<memory::LinkRates> KnownLink(const config::RunConfig& config);

// Text: "link 52.1 GB/s to the GPU, 53.0 back, 48.2 and 47.9 both ways at once: measured".
std::string LinkText(const memory::DeviceRates& rates);

}  // namespace plimsoll::trainer
