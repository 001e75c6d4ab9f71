// A trained model on disk, with the known facts about its training. Its folder is one of these: a
// run with config.yaml and with weights in model/, an adapter in adapter/, or either in a snapshot;
// a snapshot alone; or a Hugging Face checkpoint alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "models/model.h"
#include "runtime/device_kind.h"
#include "snapshots/snapshot.h"
#include "trainer/config/load.h"
#include "trainer/save_and_resume/weight_source.h"
#include "trainer/step/compile.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

struct TrainedModel {
  std::string folder;  // the folder as the user named it
  // The configuration. For a checkpoint alone it has defaults, and a context of at most 1024
  // tokens.
  config::Loaded loaded;
  std::string weights;  // the folder of the weights, or of the base weights of an adapter
  std::unique_ptr<models::Model> model;
  bool is_run = false;                          // the folder has a config.yaml
  std::string adapter;                          // the adapter's folder; empty means no adapter
  std::optional<snapshots::Snapshot> snapshot;  // holds the weights or the adapter
  bool averages = false;                        // load averaged weights instead of the weights

  const config::RunConfig& config() const { return loaded.config; }
  // The tokenizer, "byte" or a path: `chosen`, else the run's tokenizer, else the checkpoint's own.
  // Empty means that no tokenizer is known.
  std::string Tokenizer(const std::string& chosen) const;
  // The tokens that end the model's texts, in addition to its tokenizer's own (text_ends.h).
  std::vector<int32_t> Ends() const;
};

// `sets` override the run's configuration; `run_file` is a configuration for a Hugging Face folder.
// Throws a UserError if the folder is of no such kind, or lacks the chosen weights.
TrainedModel OpenTrainedModel(const std::string& folder, const std::vector<std::string>& sets,
                              const WeightChoice& choice, const std::string& run_file = "");

// Loads the weights, and the adapter's, into the session. Prints to stderr the snapshot they come
// from, if any.
void LoadTrained(const TrainedModel& trained, Session& session);

// A checksum that identifies these weights: of the snapshot's manifest, or of the folder's weights
// (models::WeightsChecksum).
std::string ChecksumOf(const TrainedModel& trained);

// The default type for generating. On a GPU it is amp.dtype of the run or, for a Hugging Face
// folder, `dtype` (earlier `torch_dtype`) in its config.json, if that is bf16 or fp16; otherwise,
// and on a CPU, "fp32".
std::string DefaultDtype(const TrainedModel& trained, runtime::DeviceKind device);

// Options for forward-only programs; the caller chooses the programs. Weights, activations and
// cache are stored as `dtype`: "fp32", "bf16" or "fp16", with the run's exceptions by op kind
// (amp.low_ops, amp.fp32_ops). Throws a UserError for another type.
CompileOptions InferenceOptions(const TrainedModel& trained, const std::string& dtype);

// The parts of an inference session's arena, in bytes.
struct InferenceMemory {
  int64_t arena = 0;
  int64_t weights = 0;
  int64_t cache = 0;
  int64_t rest = 0;  // activations, scratch, slots
};
InferenceMemory MemoryOf(const CompiledStep& compiled);

}  // namespace plimsoll::trainer
