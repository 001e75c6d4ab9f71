// Runs whose losses must be equal to the bit share one curve: only one of them trains to the end,
// the others far enough to see that their losses are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "studies/compare.h"
#include "studies/results.h"

namespace plimsoll::studies {

// How many steps a run makes whose curve another one has: a twentieth of all, and at least 20,
// after those of the warm-up.
int64_t SharedSteps(int64_t warmup, int64_t all_steps);
// The same, where `whole`, the summary of the run that has the curve, says what a step's energy is:
// then long enough for this one's energy to be measured too.
int64_t SharedSteps(int64_t warmup, int64_t all_steps, const nlohmann::ordered_json& whole);

// The first steps of both, as many as both made, have the same losses.
bool SameLosses(const Run& a, const Run& b);

// Gives each run that made fewer steps than the longest run of its claim (RowFacts::numbers and
// seed) that run's losses and evaluations, and notes how many steps were its own. A run whose own
// losses are others keeps them.
void ShareCurves(const std::vector<RowFacts>& facts, size_t baseline, std::vector<Row>& rows);

}  // namespace plimsoll::studies
