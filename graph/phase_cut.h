// A micro-step cut into a program for each of its phases, so that a pipeline's stage can run the
// forward pass of later micro-batches before the backward pass of an earlier one.
//
//   forward    %h = gelu(%x)              forward    %micro_step.1.h = gelu(%micro_step.1.x)
//   backward   %dx = …(%dh, %h)
//              %w.grad = …                backward   %dx = …(%dh, %micro_step.1.h)
//   update     %w = adamw(%w, %w.grad)               %w.grad = …
//
//                                         update     %w = adamw(%w, %w.grad)
//
// A micro-batch has its own place, a slot, from its forward to its backward pass: tensors that are
// kept for the backward pass become carried ones of the slot, and so do those that a stage receives
// and sends, and its inputs. Their names are those of a micro-step with the slot's number
// (graph/micro_steps.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/program.h"

namespace plimsoll::graph {

struct PhaseCutOptions {
  int64_t slot = 0;
  // The carried tensors of which each slot has its own.
  std::function<bool(const Tensor&)> own;
  // Whether the forward pass is a program of its own. Otherwise the backward one begins with it.
  bool forward_apart = true;
};

// A program has no nodes where its phase is empty.
struct PhasePrograms {
  Program forward, backward, update;
  // The names of the slot's tensors that the forward program leaves to the others. Nobody else
  // needs their values.
  std::vector<std::string> kept = {};
};

// The programs are named after `program`, with the phase appended. Runs on programs of one
// micro-step, when all passes have run that tell phases by their place, and before workspaces are
// added. What the update reads besides gradients is carried from the backward program to it, which
// directly follows. InternalError where a phase is not in one piece, or a transfer would begin in
// one program and end in another.
PhasePrograms CutPhases(const Program& program, const PhaseCutOptions& options);

// The temporaries that a slot keeps from its forward to its backward pass.
std::vector<TensorId> KeptForBackward(const Program& program);

// Removes the tensors that no node mentions, carried ones too.
void DropUnmentioned(Program& program);

}  // namespace plimsoll::graph
