// What a configuration takes from its data, and whether they are there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/config/run_config.h"

namespace plimsoll::config {

// True if files, a folder or a tokenizer that the section `data` names are not on this machine.
bool MissesData(const RunConfig& config);

// The number of classes of the data (SourceKind::count_classes). Nothing: the source doesn't tell
// before all are read, or the model predicts a number. UserErrors, with their place, when the data
// cannot be read.
std::optional<int64_t> ClassesOfData(const RunConfig& config);

// Sets model.classes to that number where a run file leaves it open and no weights are loaded.
void FollowClasses(RunConfig& config);

// Sets data.packing to best_fit where a run file leaves it open and all files to train on hold
// examples, which their names tell. Data that are not on this machine are known by their patterns.
void FollowExamples(RunConfig& config);

}  // namespace plimsoll::config
