// What training goes on from, the tensors that a snapshot holds; and the program that copies them,
// so that training can go on while the copy is on its way to disk (save.async):
//
//   %w.snapshot = copy_start(%w)              carried as well: the plan has memory for it
//   %m.snapshot = copy_start(own_part(%m))    a data rank's own part of what all have alike
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/program.h"

namespace plimsoll::trainer {

// Of the programs of a step, each tensor once, in their order, but for parameters of those names.
std::vector<const graph::Tensor*> CarriedState(std::span<const graph::Program* const> step,
                                               std::span<const std::string> left_out = {});

// Do `ranks` data ranks, which all have it, each save a part of it? Smaller tensors the first
// saves.
bool SavedInParts(const graph::Shape& shape, int64_t ranks);

// The copies lie in `place`. Each rank has, and saves, its own value of the
// tensors `own`.
std::unique_ptr<graph::Program> CopyCarriedState(std::span<const graph::Program* const> step,
                                                 int64_t ranks, graph::Place place,
                                                 std::span<const std::string> left_out = {},
                                                 std::span<const std::string> own = {});

// Of the copy of the tensor of that name.
std::string CopyName(const std::string& tensor);

}  // namespace plimsoll::trainer
