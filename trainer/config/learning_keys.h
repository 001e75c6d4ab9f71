// Rows of the table of keys (schema_keys.cc) on what a run learns and how: the sections preference,
// lora, optimizer and schedule.
#pragma once

#include <vector>

#include "trainer/config/schema.h"

namespace plimsoll::config {

void LearningKeys(std::vector<Key>& keys);

}  // namespace plimsoll::config
