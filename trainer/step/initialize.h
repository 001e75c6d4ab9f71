// Initial values of parameters.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "models/model.h"

namespace plimsoll::trainer {

// Fills `values` as the parameter's initializer says. Element i is a function of seed, parameter
// name and i alone.
void InitializeParameter(const models::ParameterInfo& parameter, uint64_t seed,
                         std::span<float> values, ThreadPool& pool);

}  // namespace plimsoll::trainer
