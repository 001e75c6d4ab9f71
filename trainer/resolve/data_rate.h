// Compares two speeds: how fast a data source prepares samples on this machine, and how fast a step
// reads them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "data/source.h"
#include "graph/slot.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The time that a thread takes to prepare a sample, in seconds.
struct DataRate {
  double seconds = 0;            // time, including waits for files
  double processor_seconds = 0;  // the time that the thread keeps a core busy
};

// Times this thread while it prepares samples in the slots, all rows at a time, starting with
// sample `first`. Stops after a few hundred samples or a fifth of a second, at the end of a batch.
// Returns nullopt if no sample can be prepared.
std::optional<DataRate> MeasureDataRate(const data::Source& source, int64_t first,
                                        std::span<const graph::Slot> slots);

// Rates in samples a second, for one rank.
struct DataSpeed {
  double thread = 0;  // the rate at which one thread prepares samples
  // Number of threads; 0 means that the main thread prepares samples between steps.
  int64_t workers = 0;
  // The rate of all workers; without workers, the rate of the thread that makes the steps.
  double prepared = 0;
  double step = 0;  // the rate at which steps would read prepared samples
  // Settings with which training would wait less: "data.workers: 12 (6.76k/s)". Empty if no setting
  // is known to help, or if training hardly waits.
  std::string way_out = {};

  // The fraction of time in which steps wait for data; without workers always above 0.
  double WaitingShare() const;
  bool HoldsBack() const;  // whether WaitingShare() is large enough to be reported
};

// Computes the rates for `workers` threads on `cores` cores (CoresOfRank). `samples` is the number
// of a step's samples that a rank reads; `step_seconds` is the duration of a step.
DataSpeed DataSpeedOf(const config::RunConfig& config, const DataRate& rate, int64_t workers,
                      int cores, double samples, double step_seconds);

// The rates as a line of text: "data: 1.19k samples/s a thread, 9.5k with 8 workers; the step takes
// 8.2k/s". If training waits for data (DataSpeed::HoldsBack), the text continues with " and would
// wait 45 % of the time: " and DataSpeed::way_out.
std::string DataSpeedText(const DataSpeed& speed);
nlohmann::ordered_json DataSpeedJson(const DataSpeed& speed);

// The advice to choose a faster decoder: "for large JPEG files data.decode: fast". Empty if the
// source has no such setting, or if the setting is already `fast`.
std::string FasterDecoding(const config::RunConfig& config);

}  // namespace plimsoll::trainer
