// The table of knobs, keys that may be `auto`: what a run file may leave to the budget's solver
// besides which activations are kept, one row each. All that names knobs walks it: layouts of
// ranks, variants, refusals and advice, what plans say and ranks exchange.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/config/schema.h"

namespace plimsoll::trainer {

// How far another value of a knob reaches: what it changes.
enum class Reach {
  kFinish,  // the last passes of programs
  kDraft,   // programs from the first pass on
  kState,   // and what stays on the device all through a step
  kLayout,  // what ranks exchange, and so NCCL's channels and what the budget leaves of a device
  kMesh     // how many ranks each axis has, and so what a rank's part of the batch is
};

using ConfigTexts = std::map<std::string, std::string>;  // values by key

// Values are texts, as a run file has them.
struct Knob {
  const char* key;  // "memory.weights"
  // Why it cannot be used in this run, or would have no effect; empty: it can.
  std::string (*why_unused)(const config::RunConfig& run);
  // Of plans with the value: "weights on host".
  std::string (*words)(const config::RunConfig& made);
  Reach reach;
  // The values that a run which leaves a number open may become, `made` of `open` having all knobs
  // before it set; the first uses nothing, later ones need less of the device. nullptr: a technique
  // that is used or not.
  std::vector<std::string> (*numbers)(const config::RunConfig& open, const config::RunConfig& made,
                                      const models::Model& model) = nullptr;
  // Sets the key and what follows from it; nullptr: nothing follows.
  void (*set_more)(config::RunConfig& run, const std::string& value) = nullptr;
  // A key that its values set, too.
  const char* follows = nullptr;
  // nullptr: every bit of a run is the same with any value. Otherwise whether the value in `made`,
  // which an earlier part of the run had, is what it would be now.
  bool (*goes_on)(const config::RunConfig& made, const ConfigTexts& earlier) = nullptr;
  const config::Key* row = config::FindKey(key);

  bool keeps_numbers() const { return goes_on == nullptr; }
  bool is_technique() const { return numbers == nullptr; }
  // Used: something lives on the host.
  bool is_place() const { return row->type == config::Type::kEnum; }
  const char* used() const { return is_place() ? "host" : "true"; }
  const char* unused() const { return is_place() ? "device" : "false"; }

  // The value of a run; "auto": open.
  std::string get(const config::RunConfig& run) const { return row->Text(run); }
  void set(config::RunConfig& run, const std::string& value) const;
  // As `numbers`, of techniques too.
  std::vector<std::string> Values(const config::RunConfig& open, const config::RunConfig& made,
                                  const models::Model& model) const;
  bool IsOpen(const config::RunConfig& run) const { return get(run) == "auto"; }
  bool IsUsed(const config::RunConfig& run) const { return is_technique() && get(run) == used(); }
  void Use(config::RunConfig& run, bool use) const { set(run, use ? used() : unused()); }
};
// In the order in which they are listed.
const std::vector<Knob>& Knobs();
// Those that are used or not.
const std::vector<Knob>& Techniques();

// The first key whose value is `auto`, of these and checkpointing.policy; nullptr: none. Not a
// place where there is one memory: `auto` means here then.
const char* FirstOpen(const config::RunConfig& config);
inline bool LeavesChoice(const config::RunConfig& config) { return FirstOpen(config) != nullptr; }

// Knob::why_unused, and where places on the host are no other memory.
std::string WhyUnused(const Knob& knob, const config::RunConfig& config);

// The run with the knob left open.
config::RunConfig Opened(const Knob& knob, config::RunConfig run);
// The run with each other value of a knob that it doesn't leave open and that may bring it within
// its limits, those that change least first.
std::vector<config::RunConfig> Advised(const Knob& knob, const config::RunConfig& run,
                                       const models::Model& model);

// The run with its ranks laid out in one way: the knobs from kLayout on have values.
struct RankLayout {
  config::RunConfig config;
  std::string problem = {};  // why it is impossible; not all knobs may have values then
};
// All of them, those with fewer tensor ranks and lower stages of ZeRO first; the run itself where
// no such knob is open.
std::vector<RankLayout> LayoutsOf(const config::RunConfig& config);
// The first of these knobs that is open; nullptr: none.
const char* FirstOpenLayout(const config::RunConfig& config);

// The run once for each combination of values of its other open knobs, with only
// checkpointing.policy left open; those that use fewer techniques come first. Combinations without
// an effect are left out.
std::vector<config::RunConfig> Alternatives(const config::RunConfig& config,
                                            const models::Model& model);
// Sets the open knobs that change numbers to what an earlier part of the run had, by its keys, and
// returns them: "train.micro_batch: 8"; empty: none is open, or the batch is another one.
std::string KeepChoices(config::RunConfig& run, const ConfigTexts& earlier);
// What else to do where the micro-batch is the mathematics: ", or groups of …"; empty: the model
// has no such groups.
std::string GroupsAdvice(const config::RunConfig& config);
// Lays the ranks of a run out as those of `made`, which was made of it.
void KeepLayout(config::RunConfig& run, const config::RunConfig& made);
// The values of the knobs that reach as far. Of alternatives that differ in none from kDraft on the
// programs are alike before they are finished.
std::string ValuesText(const config::RunConfig& config, Reach least);

// The choices of `made` that `open` leaves open: "4 × 8 sequences, state on host"; and as a run
// file gives them: {"train.micro_batch": 8, "train.accumulate": 4, "optimizer.place": "host"}.
std::string ChoicesText(const config::RunConfig& open, const config::RunConfig& made);
// Of the layout alone: "2 data × 2 tensor ranks, ZeRO 1".
std::string LayoutText(const config::RunConfig& open, const config::RunConfig& made);
nlohmann::ordered_json ChoicesJson(const config::RunConfig& open, const config::RunConfig& made);

}  // namespace plimsoll::trainer
