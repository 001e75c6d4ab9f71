// Mixture of data: assigns sequences to several sources by the sources' weights.
//
// Sequences are dealt out evenly rather than drawn: among the first n sequences, for any n, the
// number from each source is its exact share rounded to a whole number, give or take one. The
// source of sequence g, and the number of earlier sequences from that source, follow from g and the
// weights alone, in closed form: a run can begin anywhere, on any number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tokens/packed_rows.h"
#include "data/tokens/token_source.h"

namespace plimsoll::data {

// Token sources that are read as one, and their weight relative to other parts.
struct MixturePart {
  std::string name;  // for messages: the files as they were named
  SourceList sources;
  double weight = 1;  // above 0; only the ratio to the others' matters
  // The rows that the tokens of its source are packed into. nullptr: they are cut into windows.
  std::shared_ptr<const PackedRows> rows = {};
  // Of windows: the token that ends documents, which are kept apart; nothing: they are joined.
  std::optional<int32_t> document_end = {};
  // Of the tokens that were made of text, and of which carry loss: a resumed run must have the same
  // ones. Empty: token files, random tokens, or text that another day makes other tokens of.
  std::string checksum = {};
};

class Mixture {
 public:
  // At least one weight, all above 0.
  explicit Mixture(const std::vector<double>& weights);
  explicit Mixture(const std::vector<MixturePart>& parts);

  struct Place {
    size_t part;
    int64_t number;  // of the sequence within the part, from 0
  };
  Place Of(int64_t sequence) const;
  // The number of sequences from `part` among the first `sequences`.
  int64_t Count(size_t part, int64_t sequences) const;

  size_t size() const { return taken_.size(); }
  double share(size_t part) const { return shares_[part]; }

 private:
  std::vector<double> shares_;   // sum 1
  std::vector<uint64_t> taken_;  // share of the sequences left by earlier parts, in units of 2^-62
};

}  // namespace plimsoll::data
