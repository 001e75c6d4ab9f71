// Mixture of data: assigns sequences to several sources in proportion to the sources' weights.
//
// Sequences are distributed evenly instead of randomly: among the first n sequences, for any n, the
// number from each source differs from its rounded exact share by at most one. The source of
// sequence g, and the number of earlier sequences from that source, are computed from g and the
// weights only, in closed form. Therefore a run can begin anywhere, on any number of ranks.
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
  std::string name;  // for messages: the files as the user named them
  SourceList sources;
  double weight = 1;  // above 0; only the ratios of the weights matter
  // The rows that the source's tokens are packed into. nullptr if the tokens are cut into windows.
  std::shared_ptr<const PackedRows> rows = {};
  // For windows: the token that ends documents, which attention must not cross. nullopt means that
  // attention crosses documents.
  std::optional<int32_t> document_end = {};
  // A checksum of the tokens made from text, and of which tokens carry loss; a resumed run must
  // have the same one. Empty for token files, for random tokens, and for text whose tokens depend
  // on the day.
  std::string checksum = {};
};

class Mixture {
 public:
  // Needs at least one weight; all must be above 0.
  explicit Mixture(const std::vector<double>& weights);
  explicit Mixture(const std::vector<MixturePart>& parts);

  struct Place {
    size_t part;
    int64_t number;  // number of the sequence within the part, from 0
  };
  Place Of(int64_t sequence) const;
  // The number of sequences from `part` among the first `sequences`.
  int64_t Count(size_t part, int64_t sequences) const;

  size_t size() const { return taken_.size(); }
  double share(size_t part) const { return shares_[part]; }

 private:
  std::vector<double> shares_;  // their sum is 1
  // For each part, its share of the sequences that the parts before it leave, in units of 2^-62.
  std::vector<uint64_t> taken_;
};

}  // namespace plimsoll::data
