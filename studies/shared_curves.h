// Runs whose losses must be equal to the bit share one curve: only one of them trains to the end,
// the others only train long enough to check that their losses are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "studies/compare.h"
#include "studies/results.h"

namespace plimsoll::studies {

// The number of steps of a run that shares another's curve: after the warm-up, a twentieth of all
// steps, and at least 20.
int64_t SharedSteps(int64_t warmup, int64_t all_steps);
// The same, but if `whole`, the summary of the run with the whole curve, has the energy of a step:
// long enough to measure this run's energy too.
int64_t SharedSteps(int64_t warmup, int64_t all_steps, const nlohmann::ordered_json& whole);

// True if the steps that both runs made have the same losses.
bool SameLosses(const Run& a, const Run& b);

// Gives each run that made fewer steps than the longest run of its claim (RowFacts::numbers and
// seed) that run's losses and evaluations, and records the number of its own steps. A run whose own
// losses differ keeps them.
void ShareCurves(const std::vector<RowFacts>& facts, size_t baseline, std::vector<Row>& rows);

}  // namespace plimsoll::studies
