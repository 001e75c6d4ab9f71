// Reference log-probabilities of preferences (ops/loss/preference_loss.h): what the model, as a run
// begins, gives the texts of all pairs that the run trains on and is evaluated on. They are
// computed once, before the first step, by the run's own evaluation program, and kept in its
// directory: a second model never takes memory.
//
// The file is safetensors: "hashes" U64[n] tell the texts apart (PackedRows::HashOfText),
// ascending; "log_probs" F32[n] are theirs. Its metadata have a CRC-32C of both, and the checksum
// of the base of adapters. The numbers of a text do not depend on the row that it is in, so that a
// run that continues may pack its rows differently.
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
  // Reads the session's weights as they are. The data ranks share the rows, and all ranks have the
  // same numbers in the end. All ranks call. `base`: the checksum of the adapters' base, or "".
  // Calls progress(batches done, batches) after each batch. UserError where one is not finite.
  static ReferenceLogProbs Compute(Session& session, const PreferenceRows& rows, Ranks& ranks,
                                   const std::string& base,
                                   const std::function<void(int64_t, int64_t)>& progress);
  // UserError, naming the file, when it is missing or damaged, or is of adapters of another base;
  // `base` "": of any.
  static ReferenceLogProbs Read(const std::string& path, const std::string& base);

  // The file's content.
  std::string Content() const;

  // Sets the references of all rows. UserError, naming `path`, if one of their texts is unknown.
  void Set(const PreferenceRows& rows, const std::string& path) const;

  int64_t size() const { return std::ssize(hashes_); }

 private:
  const float* Find(uint64_t hash) const;  // nullptr: of no text

  std::vector<uint64_t> hashes_;  // ascending
  std::vector<float> values_;     // of the same texts
  std::string base_;
};

}  // namespace plimsoll::trainer
