// Reference log-probabilities of preferences (ops/loss/preference_loss.h): the log-probabilities
// that the model, with its first weights, assigns to the texts of all pairs for training and
// evaluation. The run's own evaluation program computes them once, before the first step, and the
// run directory stores them, so a second model never takes memory.
//
// The file is safetensors: "hashes" U64[n] identify the texts (PackedRows::HashOfText), ascending;
// "log_probs" F32[n] are their values. Its metadata has a CRC-32C of both, and the checksum of the
// adapters' base. A text's value does not depend on its row, so a run that continues may pack its
// rows differently.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/tokens/packed_rows.h"
#include "trainer/record/run_directory.h"
#include "trainer/resolve/ranks.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

using PreferenceRows = std::vector<std::shared_ptr<const data::PackedRows>>;

class ReferenceLogProbs {
 public:
  // Computes the log-probabilities with the session's present weights. Each data rank computes some
  // of the rows; in the end all ranks have all values. All ranks call this. `base` is the checksum
  // of the adapters' base, or "". Calls progress(batches done, batches) after each batch. Throws a
  // UserError if a value is not finite.
  static ReferenceLogProbs Compute(Session& session, const PreferenceRows& rows, Ranks& ranks,
                                   const std::string& base,
                                   const std::function<void(int64_t, int64_t)>& progress);
  // Reads the file. Throws a UserError that names the file if it is missing or damaged, or if it
  // belongs to adapters over a base other than `base`. With an empty `base`, any base is accepted.
  static ReferenceLogProbs Read(const std::string& path, const std::string& base);

  // The bytes of the file.
  std::string Content() const;

  // Sets the reference values of all rows. Throws a UserError that names `path` if a text is
  // unknown.
  void Set(const PreferenceRows& rows, const std::string& path) const;

  int64_t size() const { return std::ssize(hashes_); }

 private:
  const float* Find(uint64_t hash) const;  // nullptr if the text is unknown

  std::vector<uint64_t> hashes_;  // hashes of texts, ascending
  std::vector<float> values_;     // the values of these texts
  std::string base_;
};

}  // namespace plimsoll::trainer
