// Which of several sources a sequence comes from, by their weights.
//
// Sequences are dealt out evenly rather than drawn: of the first n, for any n, a source has the
// nearest whole number to its share, give or take one. Which source sequence g comes from, and how
// many came from there before, follows from g and the weights alone, in closed form: a run can
// begin anywhere, on any number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/token_source.h"

namespace plimsoll::data {

// Token sources that are read as one, and their weight beside others.
struct MixturePart {
  std::string name;  // for people: the files as they were named
  SourceList sources;
  double weight = 1;  // above 0; only the ratio to the others' matters
};

class Mixture {
 public:
  // At least one weight, all above 0.
  explicit Mixture(const std::vector<double>& weights);
  explicit Mixture(const std::vector<MixturePart>& parts);

  struct Place {
    size_t part;
    int64_t number;  // of the part's own sequences, from 0
  };
  Place Of(int64_t sequence) const;
  // Of the first so many sequences.
  int64_t Count(size_t part, int64_t sequences) const;

  size_t size() const { return taken_.size(); }
  double share(size_t part) const { return shares_[part]; }

 private:
  std::vector<double> shares_;   // sum 1
  std::vector<uint64_t> taken_;  // of the sequences that the parts before leave, in units of 2^-62
};

}  // namespace plimsoll::data
