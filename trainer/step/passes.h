// The table of passes, and what a program is made for. passes.cc, top to bottom, is what Plimsoll
// does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/autodiff.h"
#include "graph/pass.h"
#include "models/model.h"
#include "parallel/tensor_parallel.h"
#include "trainer/step/compile_options.h"

namespace plimsoll::trainer {

// Runs passes on a program.
using PassRunner = std::function<void(graph::PassPipeline&, graph::Program&)>;

enum class ProgramKind { kTrain, kEvaluate, kLogits };

// What a program is made for.
struct Purpose {
  ProgramKind kind;
  models::Objective objective = {};          // for training and evaluation
  graph::Carry carry = graph::Carry::kNone;  // for training
  bool update = false;
  int64_t tokens = 0;   // for logits: the tokens of each text
  bool cached = false;  // for logits: the cache has the earlier tokens of the texts
  // For training and evaluation: tensors that are summed over micro-steps and ranks, the loss
  // first.
  std::vector<std::string> metrics = {};
};

// What a list of passes is made for. Lives no longer than the options.
struct Making {
  const CompileOptions& options;
  Purpose purpose;
  parallel::TensorParallelOptions tensor = {};
  // Of joins and updates: the programs that follow, all of whose passes have run, and the
  // tensors of which each has its own.
  std::vector<const graph::Program*> next = {};
  std::function<bool(const graph::Tensor&)> own = {};

  bool trains() const { return purpose.kind == ProgramKind::kTrain; }
  // Joins: whether all micro-steps of the update come together.
  bool joins_all() const { return static_cast<int64_t>(next.size()) + 1 == options.accumulate; }
};

// The parts of the table, each of which runs by itself. Their names in its text: PassesText().
enum class Slice {
  kDraft,     // the passes up to the decision which activations are kept
  kTags,      // by a policy that is given
  kFinish,    // the passes after the decision which activations are kept
  kJoin,      // the first micro-step of an update becomes a program of several
  kUpdates,   // an update and those of other objectives become one program
  kExchange,  // of the program that exchanges weights with their averages
  kParts,     // of the programs that a stage's micro-step is cut into (graph/phase_cut.h)
};

// Every technique of Plimsoll is a row; deleting one is deleting its row and its folder.
struct PassRow {
  std::string_view name;
  std::vector<Slice> slices;
  std::string_view when;  // in words
  bool (*applies)(const Making&, Slice);
  std::unique_ptr<graph::Pass> (*make)(const Making&, Slice);
  std::string_view key = "";  // the one that asks for it, where it may have to refuse
};
const std::vector<PassRow>& PassTable();

// The passes of some slices, in the order of the table. InternalError where contracts forbid it.
graph::PassPipeline Passes(const Making& making, const std::set<Slice>& slices);
// The passes themselves, for tests of their order.
std::vector<std::unique_ptr<graph::Pass>> PassesOf(const Making& making,
                                                   const std::set<Slice>& slices);
// What holds of the programs that a slice takes.
graph::Facts FactsBefore(const Making& making, Slice slice);
// Those that make one program of the first micro-step of an update and `next` (kJoin), or of an
// update and `next`, those of other objectives (kUpdates). `next` and `own` as in Making.
graph::PassPipeline PassesOfJoined(const CompileOptions& options, Slice slice,
                                   std::vector<const graph::Program*> next,
                                   std::function<bool(const graph::Tensor&)> own);

// Those of the programs that a stage's micro-step, or its evaluation, has been cut into.
graph::PassPipeline PassesOfParts(const CompileOptions& options);

graph::Contract ContractOf(const PassRow& row);
// The table as docs/architecture.md has it. A star: debug.without may name the pass.
std::string PassesText();
// Empty, or why debug.stop_after, or debug.without, cannot name this pass.
std::string WhyNotStopAfter(std::string_view pass);
std::string WhyNotWithout(std::string_view pass);

}  // namespace plimsoll::trainer
