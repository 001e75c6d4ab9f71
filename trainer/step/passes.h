// The table of passes, and the purposes of programs. Read from top to bottom, passes.cc is what
// Plimsoll does.
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

// The purpose of a program.
struct Purpose {
  ProgramKind kind;
  models::Objective objective = {};          // only for training and evaluation
  graph::Carry carry = graph::Carry::kNone;  // only for training
  bool update = false;
  int64_t tokens = 0;   // number of tokens of each text; only for logits
  bool cached = false;  // whether the cache holds the texts' earlier tokens; only for logits
  // For training and evaluation: the names of tensors that are summed over micro-steps and ranks.
  // The first name is the loss.
  std::vector<std::string> metrics = {};
};

// The input from which a list of passes is made. `options` must outlive this object.
struct Making {
  const CompileOptions& options;
  Purpose purpose;
  parallel::TensorParallelOptions tensor = {};
  // For kJoin and kUpdates: the programs to join to this one, after all their passes, and a
  // function that says which tensors stay separate for each program.
  std::vector<const graph::Program*> next = {};
  std::function<bool(const graph::Tensor&)> own = {};

  bool trains() const { return purpose.kind == ProgramKind::kTrain; }
  // For kJoin: whether the program holds all micro-steps of the update.
  bool joins_all() const { return static_cast<int64_t>(next.size()) + 1 == options.accumulate; }
};

// The slices of the table of passes. The passes of each slice run separately. PassesText() names
// the slices.
enum class Slice {
  kDraft,     // the passes before the decision about which activations to keep
  kTags,      // the passes that mark kept activations by a given policy
  kFinish,    // the passes after the decision about which activations to keep
  kJoin,      // joins an update's micro-steps into one program
  kUpdates,   // joins the updates of several objectives into one program
  kExchange,  // for the program that exchanges weights with their averages
  kParts,     // for the programs into which a stage's micro-step is cut (graph/phase_cut.h)
};

// A row of the table. Every technique of Plimsoll is a row; to delete a technique, delete its row
// and its folder.
struct PassRow {
  std::string_view name;
  std::vector<Slice> slices;
  std::string_view when;  // when the pass runs, as text: "with adapters"
  bool (*applies)(const Making&, Slice);
  std::unique_ptr<graph::Pass> (*make)(const Making&, Slice);
  // The configuration key that requests the pass, if the pass may refuse.
  std::string_view key = "";
};
const std::vector<PassRow>& PassTable();

// The passes of these slices, in the table's order. Throws an InternalError if the passes'
// contracts forbid this order.
graph::PassPipeline Passes(const Making& making, const std::set<Slice>& slices);
// The same passes as a list, for tests of their order.
std::vector<std::unique_ptr<graph::Pass>> PassesOf(const Making& making,
                                                   const std::set<Slice>& slices);
// The facts that hold for a program before the passes of `slice` run.
graph::Facts FactsBefore(const Making& making, Slice slice);
// The passes that join a program with the programs in `next`: other micro-steps of the update
// (kJoin), or updates of other objectives (kUpdates). Making explains `next` and `own`.
graph::PassPipeline PassesOfJoined(const CompileOptions& options, Slice slice,
                                   std::vector<const graph::Program*> next,
                                   std::function<bool(const graph::Tensor&)> own);

// The passes for the programs into which a stage's micro-step or evaluation has been cut.
graph::PassPipeline PassesOfParts(const CompileOptions& options);

graph::Contract ContractOf(const PassRow& row);
// The table as docs/architecture.md shows it. A star means that debug.without may name the pass.
std::string PassesText();
// The reason why debug.stop_after or debug.without cannot name `pass`. Empty if it can.
std::string WhyNotStopAfter(std::string_view pass);
std::string WhyNotWithout(std::string_view pass);

}  // namespace plimsoll::trainer
