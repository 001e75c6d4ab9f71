// Keys that earlier versions of the program lacked, and what their runs did. A run that continues
// keeps that, unless its file or --set gives the key.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// Adds such keys to the configuration of a snapshot that has none of them.
void AddEarlierDefaults(std::map<std::string, std::string>& saved);

// For a run that continues from a snapshot with the configuration `saved`: sets the keys that its
// file leaves open to what earlier versions did, if the snapshot did so. Returns the lines that say
// so, as in "data.packing: concatenate".
std::vector<std::string> KeepEarlierDefaults(config::RunConfig& run,
                                             const std::map<std::string, std::string>& saved);

// The same for a run's own config.yaml, which has every key of its version.
void KeepStoredDefaults(config::RunConfig& stored);

}  // namespace plimsoll::trainer
