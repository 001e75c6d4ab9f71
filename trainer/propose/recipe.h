// What people train with, by what is trained: the sequence, the batch, steps, learning rate and
// schedule of a run file to start from.
#pragma once

#include "models/model.h"
#include "trainer/propose/choices.h"
#include "trainer/propose/target.h"

namespace plimsoll::trainer {

// Tokens of a sample of a checkpoint that knows more positions.
inline constexpr int64_t kFineTuningSequence = 2048;

// The global batch of training from scratch: GPT-3's by the model's size, unless the base has one.
void ChooseBatch(const models::Model& model, const Target& target, Choices& choices);

// Of further training of a checkpoint: batch, steps, rate and schedule. `rank`: of adapters, which
// are then chosen, too; 0: all weights are trained.
void ChooseFineTuning(const models::Model& model, int64_t rank, Choices& choices);

}  // namespace plimsoll::trainer
