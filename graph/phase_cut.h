// Cuts a micro-step into one program for each of its phases, so that a pipeline stage can run the
// forward pass of a micro-batch before the backward pass of an earlier micro-batch.
//
//   forward    %h = gelu(%x)              forward    %micro_step.1.h = gelu(%micro_step.1.x)
//   backward   %dx = …(%dh, %h)
//              %w.grad = …                backward   %dx = …(%dh, %micro_step.1.h)
//   update     %w = adamw(%w, %w.grad)               %w.grad = …
//
//                                         update     %w = adamw(%w, %w.grad)
//
// A micro-batch has its own memory, a slot, from its forward to its backward pass. Three kinds of
// tensors become carried tensors of the slot: tensors that are kept for the backward pass, tensors
// that a stage receives or sends, and inputs. These tensors are named like those of a micro-step
// with the slot's number (graph/micro_steps.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/program.h"

namespace plimsoll::graph {

struct PhaseCutOptions {
  int64_t slot = 0;
  // Selects carried tensors that exist once for each slot.
  std::function<bool(const Tensor&)> own;
  // Whether the forward pass is a separate program. If false, the backward program begins with the
  // forward pass.
  bool forward_apart = true;
};

// The programs of the phases. A program has no nodes if its phase is empty.
struct PhasePrograms {
  Program forward, backward, update;
  // The names of the slot's tensors that the forward program leaves for the other programs. No
  // other program and no rank needs the values of these tensors.
  std::vector<std::string> kept = {};
};

// Cuts a program of one micro-step. The programs are named after `program`, with the phase
// appended. Runs after all passes that tell phases by their position, and before workspaces are
// added. The update directly follows the backward program. Tensors other than gradients that the
// update reads are carried from the backward program. Throws InternalError if the nodes of a phase
// are not consecutive, or a transfer would begin in one program and end in another.
PhasePrograms CutPhases(const Program& program, const PhaseCutOptions& options);

// The temporaries that a slot (the memory of one micro-batch) keeps from the forward pass of its
// micro-batch to the backward pass.
std::vector<TensorId> KeptForBackward(const Program& program);

// Removes all tensors that no node mentions, including carried ones.
void DropUnmentioned(Program& program);

}  // namespace plimsoll::graph
