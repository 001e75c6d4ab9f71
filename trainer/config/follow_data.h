// Values that a configuration takes from its data, and a check that the data exists.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/config/run_config.h"

namespace plimsoll::config {

// True if files, a folder or a tokenizer that the section `data` names are not on this machine.
bool MissesData(const RunConfig& config);

// The number of classes of the data (SourceKind::count_classes). Nothing if the source knows it
// only after reading all data, or if the model predicts a number. UserErrors, with their place, if
// the data cannot be read.
std::optional<int64_t> ClassesOfData(const RunConfig& config);

// Sets model.classes to ClassesOfData() if the run file leaves it open and no weights are loaded.
void FollowClasses(RunConfig& config);

// Sets data.packing to best_fit if the run file leaves it open and all training files hold
// examples, which their names tell. For data that is not on this machine, the patterns tell.
void FollowExamples(RunConfig& config);

// Sets data.begin to none if the run file leaves it open and a token file of data.train does not
// say with which token its documents begin.
void FollowBegins(RunConfig& config);

}  // namespace plimsoll::config
