// Dropout probabilities by where dropout applies, and their settings. `dropout` sets all.
// attention_dropout, hidden_dropout and embedding_dropout set one each, and default to `dropout`;
// classifier_dropout defaults to hidden_dropout. A family only has the settings that its models
// distinguish.
#pragma once

#include <string>
#include <vector>

#include "base/settings.h"

namespace plimsoll::models {

struct DropoutRates {
  // Implicit, since most models have a single rate.
  DropoutRates(double all = 0) : attention(all), hidden(all), embedding(all), classifier(all) {}

  bool any() const { return attention > 0 || hidden > 0 || embedding > 0 || classifier > 0; }
  bool operator==(const DropoutRates&) const = default;

  double attention;  // rate for attention probabilities
  double hidden;     // rate for the branches' results, before they are added to the residual stream
  double embedding;  // rate for the first block's input
  double classifier;  // rate for the input of a classifier's last layer
};

// Reads the rates from complete settings. If a family lacks a setting, its rate equals another one:
// embeddings and classifiers use the hidden rate, and hidden uses attention's.
DropoutRates DropoutRatesOf(const Settings& settings);

// Which settings among `rows` are rates of a single place, such as attention_dropout.
std::vector<std::string> DropoutPlaces(const std::vector<Setting>& rows);

// Sets those of `places` that are not set to their default, `dropout`.
void CompleteDropout(const std::vector<std::string>& places, Settings& settings);

// Does the same for a run that starts from a checkpoint: the checkpoint's rate in `loaded` is used
// if neither the place's setting nor `dropout` is given.
void DeriveDropout(const std::vector<std::string>& places, const DropoutRates& loaded,
                   Settings& settings);

}  // namespace plimsoll::models
