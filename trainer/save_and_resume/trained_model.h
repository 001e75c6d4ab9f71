// A trained model on disk, with the known facts about its training: the folder of a run, with
// weights in model/, an adapter in adapter/ or either in a snapshot, and with config.yaml; a
// snapshot alone; or a Hugging Face checkpoint alone.
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
  std::string folder;     // as the user named it
  config::Loaded loaded;  // of a checkpoint alone: defaults, and a context of at most 1024 tokens
  std::string weights;    // the folder of the weights, or of the base weights of an adapter
  std::unique_ptr<models::Model> model;
  bool is_run = false;  // there is a config.yaml
  std::string adapter;  // the folder of the adapter beside the weights; empty: there is none
  std::optional<snapshots::Snapshot> snapshot;  // with the weights, or with the adapter
  bool averages = false;                        // these are meant, instead of the weights

  const config::RunConfig& config() const { return loaded.config; }
  // "byte" or a path: `chosen`, else the run's, else the checkpoint's own. Empty: none is known.
  std::string Tokenizer(const std::string& chosen) const;
  // The tokens that end its texts, besides its tokenizer's own (text_ends.h).
  std::vector<int32_t> Ends() const;
};

// `sets` override the run's configuration; `run_file`, beside a Hugging Face folder, gives one.
// UserError when the folder is none of these, or lacks
// such weights.
TrainedModel OpenTrainedModel(const std::string& folder, const std::vector<std::string>& sets,
                              const WeightChoice& choice, const std::string& run_file = "");

// Fills the session with the weights, and with the adapter's. Prints on stderr which snapshot they
// are from, if any.
void LoadTrained(const TrainedModel& trained, Session& session);

// A checksum by which these weights are told from others: of the snapshot's manifest, or of the
// folder's weights (models::WeightsChecksum).
std::string ChecksumOf(const TrainedModel& trained);

// The type to generate in, where nobody chooses one: on a GPU amp.dtype of the run, or, of a
// Hugging Face folder, `dtype` (earlier `torch_dtype`) of its config.json, if it is bf16 or fp16;
// otherwise, and on a CPU, "fp32".
std::string DefaultDtype(const TrainedModel& trained, runtime::DeviceKind device);

// Options for programs that only run forward; the caller chooses the programs. Weights, activations
// and cache are stored as `dtype`: "fp32", "bf16" or "fp16", with the run's exceptions by op kind
// (amp.low_ops, amp.fp32_ops). UserError when there is no such type.
CompileOptions InferenceOptions(const TrainedModel& trained, const std::string& dtype);

// The breakdown of the arena of a session for inference, in bytes.
struct InferenceMemory {
  int64_t arena = 0;
  int64_t weights = 0;
  int64_t cache = 0;
  int64_t rest = 0;  // activations, scratch, slots
};
InferenceMemory MemoryOf(const CompiledStep& compiled);

}  // namespace plimsoll::trainer
