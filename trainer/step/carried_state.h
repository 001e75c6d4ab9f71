// The training state: the tensors that a snapshot holds. Also the program that copies them, so that
// training continues while the copy is written to disk (save.async):
//
//   %w.snapshot = copy_start(%w)              the copy is a carried tensor with planned memory
//   %m.snapshot = copy_start(own_part(%m))    a data rank copies its part of a replicated tensor
//   copy_done(%w.snapshot, %w)
//   copy_done(%m.snapshot, own_part(%m))
//   …                                         the next group
//
// Groups are copied in the order in which a step changes them, so that the step after the snapshot
// waits as little as possible (runtime/state_reads.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/program.h"
#include "trainer/step/compile_options.h"

namespace plimsoll::trainer {

// The tensors of the training state in a step's programs, each once, in the programs' order.
// Parameters named in `left_out` are excluded.
std::vector<const graph::Tensor*> CarriedState(std::span<const graph::Program* const> step,
                                               std::span<const std::string> left_out = {});

// The names of the states for which each data rank has its own value.
std::vector<std::string> OwnStates(std::span<const graph::Program* const> step);

// The program that copies the training state. On a GPU the copies are outside the arena; if host
// and device share memory, the copies are in the arena.
std::unique_ptr<graph::Program> CopyCarriedState(std::span<const graph::Program* const> step,
                                                 const CompileOptions& options);

// The name of the copy of `tensor`.
std::string CopyName(const std::string& tensor);

}  // namespace plimsoll::trainer
