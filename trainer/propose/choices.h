// The keys of a run file to start from: those of the file that it begins with, and choices made for
// its device (target.cc), by what is trained (recipe.cc, sample_data.cc) and for its budget
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
  // `base` outlives the object.
  explicit Choices(const config::RunConfig& base) : base_(base) {}

  // Gives a key a value instead of the base's. Has no effect where --set gives the key: what
  // somebody asks for is never chosen otherwise. `why` is a comment before the key; "": none.
  void Set(const std::string& key, const std::string& value, const std::string& why = "");
  void Remove(const std::string& key) { made_.erase(key); }
  // Whether the file will have the key: chosen, or kept from the base.
  bool Has(const std::string& key) const { return made_.contains(key) || Keeps(key); }
  // Whether the base's value stays unless another is chosen: keys that follow from the device and
  // the budget, such as amp.dtype, stay only where --set gives them.
  bool Keeps(const std::string& key) const;
  // Whether --set gives the key.
  bool IsAsked(const std::string& key) const;

  // The run file, its keys in the order of the schema.
  std::string Text() const;
  const config::RunConfig& base() const { return base_; }

 private:
  struct Choice {
    std::string value, why;
  };
  const config::RunConfig& base_;
  std::map<std::string, Choice> made_;
};

// A comment of a run file, in lines that fit a page.
std::string Comment(const std::string& text, const std::string& indent);

// The device and the budget that a run file is for.
struct Target {
  std::string name;      // "NVIDIA H200", "CPU"
  std::string key = {};  // of trainer/resolve/known_gpus.h; empty: this machine's device
  bool gpu = false;
  int major = 0, minor = 0;  // compute capability
  std::string budget;        // where none is named: 90 % of the GPU's memory, 80 % of the machine's
  std::string budget_why;
  std::string code = {};  // what this build can do with it
};

// `device`: "h200", "cpu"; empty: what is here, the first of `gpus` if there is one. UserError for
// one that is unknown.
Target TargetOf(const std::string& device, const runtime::GpuReport& gpus);

// device, memory.device, memory.budget (`budget` as somebody asks for it; empty: the target's) and
// amp.dtype.
void ChooseDevice(const Target& target, const std::string& budget, Choices& choices);

// Tokens of a sample of a checkpoint that knows more positions.
inline constexpr int64_t kFineTuningSequence = 2048;

// The global batch of training from scratch: GPT-3's by the model's size, unless the base has one.
void ChooseBatch(const models::Model& model, const Target& target, Choices& choices);

// Of further training of a checkpoint: batch, steps, rate and schedule. `rank`: of adapters, which
// are then chosen, too; 0: all weights are trained.
void ChooseFineTuning(const models::Model& model, int64_t rank, Choices& choices);

// The source that fills the model's inputs and has all of these keys of `data`, which somebody
// gives ("data.folder"): `own` if it does, or else one that can make samples up, or any. Empty:
// no source does.
std::string SourceFor(const models::Model& model, std::span<const std::string> keys,
                      const std::string& own);

// Has the source make its samples up, and says what to write instead; nothing where somebody names
// data. `tokenizer`: a folder to name in that; empty: unknown.
void ChooseSampleData(const models::Model& model, const std::string& tokenizer, Choices& choices);

// Adds them to the others. Returns what the file is to say of their cost. UserError with
// ExitCode::kBudgetNotMet when no plan fits: it names the smallest one that `plimsoll plan` finds
// for the file with all of these choices left open.
std::vector<std::string> ChooseWithinBudget(const Target& target, Choices& choices);

}  // namespace plimsoll::trainer
