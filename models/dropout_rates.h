// Probabilities of dropout by where it applies, and the settings that give them: `dropout` is for
// all; attention_dropout, hidden_dropout and embedding_dropout are for one place each, and follow
// `dropout` unless they are given; classifier_dropout follows hidden_dropout. A family has those
// that its models know apart.
#pragma once

#include <string>
#include <vector>

#include "base/settings.h"

namespace plimsoll::models {

struct DropoutRates {
  // Implicit, as one number is what most models have.
  DropoutRates(double all = 0) : attention(all), hidden(all), embedding(all), classifier(all) {}

  bool any() const { return attention > 0 || hidden > 0 || embedding > 0 || classifier > 0; }
  bool operator==(const DropoutRates&) const = default;

  double attention;   // of the weights that attention gives to keys
  double hidden;      // of what branches add to the residual stream
  double embedding;   // of what the first block reads
  double classifier;  // of what a classifier's last layer reads
};

// Of complete settings. What a family does not know apart follows: embeddings and classifiers
// follow the hidden rate, and that follows attention's.
DropoutRates DropoutRatesOf(const Settings& settings);

// The settings of single places among a family's.
std::vector<std::string> DropoutPlaces(const std::vector<Setting>& rows);

// Lets those of `places` that are not set follow `dropout`.
void CompleteDropout(const std::vector<std::string>& places, Settings& settings);

// The same beside a checkpoint's weights: `loaded` counts where neither the place nor `dropout` is
// given.
void DeriveDropout(const std::vector<std::string>& places, const DropoutRates& loaded,
                   Settings& settings);

}  // namespace plimsoll::models
