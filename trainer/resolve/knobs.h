// The table of knobs. A knob is a key that may be `auto`, so that the budget's solver chooses its
// value (the solver also chooses which activations are kept). Each knob is one row. All code that
// lists knobs walks this table: layouts of ranks, variants, refusals, advice, descriptions of
// plans, and the communication of ranks.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/config/schema.h"

namespace plimsoll::trainer {

// The part of a run that changes with a knob's value.
enum class Reach {
  kFinish,  // the last passes of programs
  kDraft,   // programs from the first pass on
  kState,   // programs, and the bytes that stay on the device throughout a step
  kLayout,  // communication of ranks, hence NCCL's channels and the arena's share of the budget
  kMesh     // the number of ranks of each axis, hence the part of the batch that each rank gets
};

using ConfigTexts = std::map<std::string, std::string>;  // maps a key to its value

// A row of the table. Values are texts, as in a run file.
struct Knob {
  const char* key;  // "memory.weights"
  // Why this run cannot use the knob, or why the knob would have no effect. Empty if it can be
  // used.
  std::string (*why_unused)(const config::RunConfig& run);
  // A value's description in a plan: "weights on host".
  std::string (*words)(const config::RunConfig& made);
  Reach reach;
  // For a knob with numbers: returns the values that the knob may take in `open`, a run that leaves
  // it open. `made` is `open` with all earlier knobs set. The first value means that the knob is
  // not used; each later value needs less device memory than the value before it. nullptr means
  // that the knob is a technique, which is used or not.
  std::vector<std::string> (*numbers)(const config::RunConfig& open, const config::RunConfig& made,
                                      const models::Model& model) = nullptr;
  // Sets the key and further keys that depend on it. nullptr means that no other key depends on it.
  void (*set_more)(config::RunConfig& run, const std::string& value) = nullptr;
  // A second key that the knob's values also set.
  const char* follows = nullptr;
  // nullptr means that every value of the knob gives bit-identical results. Otherwise returns
  // whether the value in `made`, which an earlier part of the run used, must be chosen again.
  bool (*goes_on)(const config::RunConfig& made, const ConfigTexts& earlier) = nullptr;
  const config::Key* row = config::FindKey(key);

  bool keeps_numbers() const { return goes_on == nullptr; }
  bool is_technique() const { return numbers == nullptr; }
  // Whether the knob is one of placement, which places tensors on the host if used.
  bool is_place() const { return row->type == config::Type::kEnum; }
  const char* used() const { return is_place() ? "host" : "true"; }
  const char* unused() const { return is_place() ? "device" : "false"; }

  // The run's value of the key; "auto" means open.
  std::string get(const config::RunConfig& run) const { return row->Text(run); }
  void set(config::RunConfig& run, const std::string& value) const;
  // The knob's values: from `numbers`, or for a technique the values that mean unused and used.
  std::vector<std::string> Values(const config::RunConfig& open, const config::RunConfig& made,
                                  const models::Model& model) const;
  bool IsOpen(const config::RunConfig& run) const { return get(run) == "auto"; }
  bool IsUsed(const config::RunConfig& run) const { return is_technique() && get(run) == used(); }
  void Use(config::RunConfig& run, bool use) const { set(run, use ? used() : unused()); }
};
// All knobs, in the order in which they are listed.
const std::vector<Knob>& Knobs();
// The knobs that are techniques, which are used or not.
const std::vector<Knob>& Techniques();

// The first knob, or checkpointing.policy, that is `auto`; nullptr if no knob is. Skips knobs of
// placement if host and device share one memory, because `auto` then means `device`.
const char* FirstOpen(const config::RunConfig& config);
inline bool LeavesChoice(const config::RunConfig& config) { return FirstOpen(config) != nullptr; }

// Knob::why_unused; also says why placement on the host has no effect if host and device share one
// memory.
std::string WhyUnused(const Knob& knob, const config::RunConfig& config);

// The run with the knob left open.
config::RunConfig Opened(const Knob& knob, config::RunConfig run);
// For each value other than the run's own that a fixed knob may take: the run with that value, if
// the value may bring the run within its limits. Values that change least come first.
std::vector<config::RunConfig> Advised(const Knob& knob, const config::RunConfig& run,
                                       const models::Model& model);

// The run with one layout of its ranks: the knobs with reach kLayout or kMesh have values.
struct RankLayout {
  config::RunConfig config;
  std::string problem = {};  // why the layout is impossible; some knobs may then lack values
};
// All layouts of the run; layouts with fewer tensor ranks and lower ZeRO stages come first. Returns
// only the run itself if no knob of the layout is open.
std::vector<RankLayout> LayoutsOf(const config::RunConfig& config);
// The first open knob of the ranks' layout; nullptr if none is open.
const char* FirstOpenLayout(const config::RunConfig& config);

// The run with each combination of values of its open knobs; only checkpointing.policy stays open.
// Combinations with fewer techniques come first. Combinations without an effect are omitted.
std::vector<config::RunConfig> Alternatives(const config::RunConfig& config,
                                            const models::Model& model);
// For a resumed run: sets the open knobs that affect results to their values in `earlier`, which
// has the values that an earlier part of the run used. Returns the new settings, such as
// "train.micro_batch: 8". Returns an empty text if no such knob is open, or if the batch has
// changed.
std::string KeepChoices(config::RunConfig& run, const ConfigTexts& earlier);
// Advice for models in which the samples of a micro-batch affect one another: ", or groups of …".
// Empty if the model has no groups of samples.
std::string GroupsAdvice(const config::RunConfig& config);
// Gives `run` the layout of ranks of `made`, which was made from `run`.
void KeepLayout(config::RunConfig& run, const config::RunConfig& made);
// The values of the knobs whose reach is `least` or more, as text. Alternatives with equal texts
// for kDraft have equal programs up to the last passes.
std::string ValuesText(const config::RunConfig& config, Reach least);

// The choices in `made` for knobs that `open` leaves open. ChoicesText: "4 × 8 sequences, state on
// host"; ChoicesJson, as in a run file: {"train.micro_batch": 8, "train.accumulate": 4,
// "optimizer.place": "host"}.
std::string ChoicesText(const config::RunConfig& open, const config::RunConfig& made);
// The choices of the ranks' layout: "2 data × 2 tensor ranks, ZeRO 1".
std::string LayoutText(const config::RunConfig& open, const config::RunConfig& made);
nlohmann::ordered_json ChoicesJson(const config::RunConfig& open, const config::RunConfig& made);

}  // namespace plimsoll::trainer
