// The keys of a run file to start from: those of its base file, and choices for its device
// (target.cc), for what is trained (recipe.cc, sample_data.cc) and for its budget
// (within_budget.cc), each with a reason.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/model.h"
#include "runtime/cuda/gpu_report.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

class Choices {
 public:
  // `base` must outlive this object.
  explicit Choices(const config::RunConfig& base) : base_(base) {}

  // Gives a key a value in place of the base's value. Has no effect on keys that --set gives,
  // because the user's value always counts. `why` becomes a comment before the key; "" means no
  // comment.
  void Set(const std::string& key, const std::string& value, const std::string& why = "");
  void Remove(const std::string& key) { made_.erase(key); }
  // Whether the file will have the key: chosen, or kept from the base.
  bool Has(const std::string& key) const { return made_.contains(key) || Keeps(key); }
  // Whether the base's value is kept unless a value is chosen. Keys that follow from device and
  // budget, such as amp.dtype, are kept only if --set gives them.
  bool Keeps(const std::string& key) const;
  // Whether --set gives the key.
  bool IsAsked(const std::string& key) const;

  // The text of the run file, with keys in the order of the schema.
  std::string Text() const;
  const config::RunConfig& base() const { return base_; }

 private:
  struct Choice {
    std::string value, why;
  };
  const config::RunConfig& base_;
  std::map<std::string, Choice> made_;
};

// Formats a comment of a run file in lines of limited length.
std::string Comment(const std::string& text, const std::string& indent);

// A run file's device and budget.
struct Target {
  std::string name;      // "NVIDIA H200", "CPU"
  std::string key = {};  // key in trainer/resolve/known_gpus.h; empty means this machine's device
  bool gpu = false;
  ComputeCapability capability = {};
  std::string budget;  // the default budget: 90 % of the GPU's memory, 80 % of the machine's memory
  std::string budget_why;
  std::string code = {};  // text: whether this build can run on the GPU
};

// Finds the target. `device` is "h200" or "cpu", for example; empty means this machine's device:
// the first of `gpus`, if there is one, else the CPU. Throws a UserError for an unknown device.
Target TargetOf(const std::string& device, const runtime::GpuReport& gpus);

// Chooses device, memory.device, memory.budget (`budget` if given, otherwise the target's default)
// and amp.dtype.
void ChooseDevice(const Target& target, const std::string& budget, Choices& choices);

// The most tokens in a sample when a checkpoint is fine-tuned.
inline constexpr int64_t kFineTuningSequence = 2048;

// Chooses the global batch for training from scratch: GPT-3's batch for the model's size, unless
// the base has a batch.
void ChooseBatch(const models::Model& model, const Target& target, Choices& choices);

// Chooses batch, steps, learning rate and schedule for fine-tuning a checkpoint. `rank` is the rank
// of adapters, which are then also chosen; 0 means that all weights are trained.
void ChooseFineTuning(const models::Model& model, int64_t rank, Choices& choices);

// A data source that fills the model's inputs and has all of the given keys of `data`
// ("data.folder"). Returns `own` if it is such a source; otherwise prefers a source that can make
// up samples. Empty if no such source exists.
std::string SourceFor(const models::Model& model, std::span<const std::string> keys,
                      const std::string& own);

// Chooses made-up samples, with a comment on how to use real data; does nothing if the user names
// data. `tokenizer` is a folder for this comment; empty means unknown.
void ChooseSampleData(const models::Model& model, const std::string& tokenizer, Choices& choices);

// Adds the solver's choices. Returns the file's remarks on cost. Throws a UserError with
// ExitCode::kBudgetNotMet if no plan fits; it names the smallest plan that `plimsoll plan` finds
// for the file with all of these choices left open.
std::vector<std::string> ChooseWithinBudget(const Target& target, Choices& choices);

}  // namespace plimsoll::trainer
