// The table of knobs: a knob is a key that may be `auto`, whose value the budget's solver may
// choose (the solver also chooses which activations are kept). Each knob is one row. All code that
// lists knobs walks this table: layouts of ranks, variants, refusals, advice, descriptions of
// plans, and what ranks exchange.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/config/schema.h"

namespace plimsoll::trainer {

// What another value of a knob changes.
enum class Reach {
  kFinish,  // the last passes of programs
  kDraft,   // programs from the first pass on
  kState,   // programs, and the bytes that are on the device all through a step
  kLayout,  // what ranks exchange, hence NCCL's channels and the arena's part of the budget
  kMesh     // the number of ranks of each axis, hence each rank's part of the batch
};

using ConfigTexts = std::map<std::string, std::string>;  // values by key

// Values are texts, as a run file has them.
struct Knob {
  const char* key;  // "memory.weights"
  // Why this run cannot use the knob, or why the knob would have no effect; empty: it can be used.
  std::string (*why_unused)(const config::RunConfig& run);
  // Words for a plan that uses the value: "weights on host".
  std::string (*words)(const config::RunConfig& made);
  Reach reach;
  // For a knob with numbers: the values that `open`, a run that leaves the knob open, may take.
  // `made` is `open` with all knobs before this one set. The first value uses nothing; later values
  // need less of the device. nullptr: the knob is a technique, which is used or not.
  std::vector<std::string> (*numbers)(const config::RunConfig& open, const config::RunConfig& made,
                                      const models::Model& model) = nullptr;
  // Sets the key and further keys that depend on it; nullptr: no key depends on it.
  void (*set_more)(config::RunConfig& run, const std::string& value) = nullptr;
  // A further key that the knob's values set.
  const char* follows = nullptr;
  // nullptr: every value of the knob gives bit-identical results. Otherwise returns whether the
  // value in `made`, which an earlier part of the run had, is still the value that would be chosen.
  bool (*goes_on)(const config::RunConfig& made, const ConfigTexts& earlier) = nullptr;
  const config::Key* row = config::FindKey(key);

  bool keeps_numbers() const { return goes_on == nullptr; }
  bool is_technique() const { return numbers == nullptr; }
  // A knob of placement: used, it places tensors on the host.
  bool is_place() const { return row->type == config::Type::kEnum; }
  const char* used() const { return is_place() ? "host" : "true"; }
  const char* unused() const { return is_place() ? "device" : "false"; }

  // The value that a run has; "auto": open.
  std::string get(const config::RunConfig& run) const { return row->Text(run); }
  void set(config::RunConfig& run, const std::string& value) const;
  // The values as `numbers` gives them, for techniques too.
  std::vector<std::string> Values(const config::RunConfig& open, const config::RunConfig& made,
                                  const models::Model& model) const;
  bool IsOpen(const config::RunConfig& run) const { return get(run) == "auto"; }
  bool IsUsed(const config::RunConfig& run) const { return is_technique() && get(run) == used(); }
  void Use(config::RunConfig& run, bool use) const { set(run, use ? used() : unused()); }
};
// All knobs, in the order in which they are listed.
const std::vector<Knob>& Knobs();
// The knobs that are techniques: used or not.
const std::vector<Knob>& Techniques();

// The first key whose value is `auto`, of the knobs and checkpointing.policy; nullptr: none is. On
// a machine with one memory knobs of placement are skipped, because `auto` then means `device`.
const char* FirstOpen(const config::RunConfig& config);
inline bool LeavesChoice(const config::RunConfig& config) { return FirstOpen(config) != nullptr; }

// Knob::why_unused; also says why placement on the host has no effect on a machine with one memory.
std::string WhyUnused(const Knob& knob, const config::RunConfig& config);

// The run with the knob left open.
config::RunConfig Opened(const Knob& knob, config::RunConfig run);
// The run with each other value of a knob that it has fixed, if that value may bring the run within
// its limits; values that change least come first.
std::vector<config::RunConfig> Advised(const Knob& knob, const config::RunConfig& run,
                                       const models::Model& model);

// The run with one layout of its ranks: the knobs with reach kLayout or kMesh have values.
struct RankLayout {
  config::RunConfig config;
  std::string problem = {};  // why the layout is impossible; then some knobs may lack values
};
// All layouts of the run; those with fewer tensor ranks and lower stages of ZeRO come first. The
// run itself if no such knob is open.
std::vector<RankLayout> LayoutsOf(const config::RunConfig& config);
// The first knob of layout that is open; nullptr: none is.
const char* FirstOpenLayout(const config::RunConfig& config);

// The run once for each combination of values of its other open knobs; only checkpointing.policy
// stays open. Combinations that use fewer techniques come first. Combinations without an effect are
// left out.
std::vector<config::RunConfig> Alternatives(const config::RunConfig& config,
                                            const models::Model& model);
// Sets the open knobs that change numbers to the values that an earlier part of the run had, given
// by key. Returns these settings: "train.micro_batch: 8"; empty if no such knob is open, or if the
// batch has changed.
std::string KeepChoices(config::RunConfig& run, const ConfigTexts& earlier);
// Advice for models in which the samples of a micro-batch act on one another: ", or groups of …";
// empty if the model has no groups of samples.
std::string GroupsAdvice(const config::RunConfig& config);
// Gives `run` the layout of ranks of `made`, which was made from `run`.
void KeepLayout(config::RunConfig& run, const config::RunConfig& made);
// The values of the knobs whose reach is `least` or more. Alternatives whose values agree from
// kDraft on have equal programs up to the last passes.
std::string ValuesText(const config::RunConfig& config, Reach least);

// The choices of `made` that `open` leaves open. ChoicesText: "4 × 8 sequences, state on host";
// ChoicesJson, as a run file gives them: {"train.micro_batch": 8, "train.accumulate": 4,
// "optimizer.place": "host"}.
std::string ChoicesText(const config::RunConfig& open, const config::RunConfig& made);
// The choices of layout alone: "2 data × 2 tensor ranks, ZeRO 1".
std::string LayoutText(const config::RunConfig& open, const config::RunConfig& made);
nlohmann::ordered_json ChoicesJson(const config::RunConfig& open, const config::RunConfig& made);

}  // namespace plimsoll::trainer
