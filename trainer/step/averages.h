// The program that exchanges weights with their EMA (optimizer.ema). After the exchange, evaluating
// and saving read averages instead of weights.
//
//   update    %w, %w.ema, %w.remainder = exchange_average(%w, %w.ema, %w.remainder)
//
// With ZeRO 1 and 2 a rank exchanges its own shard of a sharded weight; the other shards are
// gathered before the weight is read. State on the host is staged as in an update.
#pragma once

#include <memory>
#include <span>

#include "graph/program.h"

namespace plimsoll::trainer {

// Exchanges all weights and states that the programs of a step average.
std::unique_ptr<graph::Program> ExchangeAverages(std::span<const graph::Program* const> step);

}  // namespace plimsoll::trainer
