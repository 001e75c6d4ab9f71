// Creates the device of a run on a separate thread while the run is planned and reads its data,
// because a GPU's context and libraries take most of a second.
#pragma once

#include <future>
#include <memory>

#include "base/thread_pool.h"
#include "runtime/device.h"
#include "trainer/config/run_config.h"
#include "trainer/resolve/ranks.h"

namespace plimsoll::trainer {

class DeviceStart {
 public:
  // Starts to create the device. `config` must outlive this object.
  explicit DeviceStart(const config::RunConfig& config);

  // Waits until the device is created. The first call also connects its ranks, with at most
  // `channels` channels (Ranks::Connect). Throws a UserError when this build or machine has no such
  // device.
  runtime::Device& Connected(Ranks& ranks, int64_t channels);

 private:
  const config::RunConfig& config_;
  ThreadPool pool_;
  std::unique_ptr<runtime::Device> device_;
  std::future<std::unique_ptr<runtime::Device>> made_;
};

}  // namespace plimsoll::trainer
