// How fast a source of data prepares samples on this machine, next to a step that reads them.
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

// What a thread takes to prepare a sample, in seconds.
struct DataRate {
  double seconds = 0;            // waiting for files included
  double processor_seconds = 0;  // in which it keeps a core busy
};

// Prepares samples from `first` on in the slots, all rows at a time, on this thread: a few hundred,
// for a fifth of a second, and for as long as a batch takes that has begun. nullopt: none can be
// prepared.
std::optional<DataRate> MeasureDataRate(const data::Source& source, int64_t first,
                                        std::span<const graph::Slot> slots);

// Samples a second of one rank.
struct DataSpeed {
  double thread = 0;    // that a thread can prepare
  int64_t workers = 0;  // 0: the thread that makes the steps prepares them, between steps
  double prepared = 0;  // that the workers, or without any that thread, can prepare
  double step = 0;      // that steps read whose data are ready
  // What would let training wait less: "data.workers: 12 (6.76k/s)". Empty: nothing that is known,
  // or it hardly waits.
  std::string way_out = {};

  // The share of the time in which the step waits for its data; without workers never 0.
  double WaitingShare() const;
  bool HoldsBack() const;  // is that share worth a word?
};

// `workers` threads on as many cores as CoresOfRank. `samples`: of a step, that a rank reads;
// `step_seconds`: what it takes.
DataSpeed DataSpeedOf(const config::RunConfig& config, const DataRate& rate, int64_t workers,
                      int cores, double samples, double step_seconds);

// "data: 1.19k samples/s a thread, 9.5k with 8 workers; the step takes 8.2k/s", and where data hold
// training back " and would wait 45 % of the time: ", and way_out.
std::string DataSpeedText(const DataSpeed& speed);
nlohmann::ordered_json DataSpeedJson(const DataSpeed& speed);

// "for large JPEG files data.decode: fast"; empty: the source has no such setting, or it
// is fast.
std::string FasterDecoding(const config::RunConfig& config);

}  // namespace plimsoll::trainer
