// The list of passes. passes.cc, top to bottom, is what Plimsoll does.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/autodiff.h"
#include "graph/pass.h"
#include "models/model.h"
#include "models/sharding.h"
#include "parallel/tensor_parallel.h"
#include "trainer/step/compile_options.h"

namespace plimsoll::trainer {

enum class ProgramKind { kTrain, kEvaluate, kLogits };

// What a program is made for.
struct Purpose {
  ProgramKind kind;
  models::Objective objective = {};          // of training and evaluation
  graph::Carry carry = graph::Carry::kNone;  // of training
  bool update = false;
  int64_t tokens = 0;   // of logits: of each text
  bool cached = false;  // of logits: earlier tokens of the texts are in the cache
  // Of training and evaluation: tensors that are summed over micro-steps and ranks, the loss first.
  std::vector<std::string> metrics = {};
  std::vector<models::StateUpdate> states = {};  // of training
};

// The stage of ZeRO of training. With one data rank there is nothing to divide.
int64_t ZeroOf(const CompileOptions& options);

// Whether each data rank carries a part of each weight. On the host that is so with any stage of
// ZeRO: the link to the device is narrower than that to other ranks.
bool DividesWeights(const CompileOptions& options);

// What each rank has of the parameters that tensor parallelism splits.
parallel::TensorParallelOptions TensorParallelFrom(
    const CompileOptions& options, const std::map<std::string, models::SplitParameter>& split);

// Every technique of Plimsoll is a line here; deleting one is deleting its line and its folder.
graph::PassPipeline Passes(const CompileOptions& options, const Purpose& purpose,
                           const parallel::TensorParallelOptions& tensor);

// The last passes of the list: what follows once it is decided which activations are kept.
// `loss`: what a training program trains; empty: it trains nothing. The updates of a program that
// is joined of several micro-steps move after that.
void AddPassesAfterTags(const CompileOptions& options, const std::string& loss,
                        graph::PassPipeline& passes);

// The passes by which the first micro-step of an update becomes one program of several, `next`
// behind it; each has all its own passes behind it.
graph::PassPipeline PassesOfJoined(const CompileOptions& options,
                                   const std::vector<models::Objective>& objectives,
                                   std::vector<const graph::Program*> next);

// Whether the update of an objective follows that of another one in its program. It is the next of
// the objectives, and there is one micro-step.
bool JoinsUpdate(const CompileOptions& options, const models::Objective& before,
                 const models::Objective& objective);
// The passes by which an update's program goes on with those of others, each of which has all its
// own passes behind it.
graph::PassPipeline PassesOfUpdates(const CompileOptions& options,
                                    std::vector<const graph::Program*> next);

}  // namespace plimsoll::trainer
