// EMA of weights (optimizer.ema) where weights are read: the program that exchanges both, so that
// evaluating and saving need not know of averages.
//
//   update    %w, %w.ema, %w.remainder = exchange_average(%w, %w.ema, %w.remainder)
//
// With ZeRO 1 and 2 a rank exchanges its own part of a divided weight, whose other parts are
// gathered before the weight is read. With state on the host it is staged as in an update.
#pragma once

#include <memory>
#include <span>

#include "graph/program.h"

namespace plimsoll::trainer {

// Of all weights and states that the programs of a step average.
std::unique_ptr<graph::Program> ExchangeAverages(std::span<const graph::Program* const> step);

}  // namespace plimsoll::trainer
