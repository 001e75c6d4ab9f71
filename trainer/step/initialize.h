// Initial values of parameters.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "models/model.h"

namespace plimsoll::trainer {

// Fills `values`, the parameter's elements from number `first` on (a multiple of 4), as its
// initializer says. Element i is a function of seed, parameter name and i alone.
void InitializeParameter(const models::ParameterInfo& parameter, uint64_t seed,
                         std::span<float> values, ThreadPool& pool, int64_t first = 0);

}  // namespace plimsoll::trainer
