#include "models/classification_scores.h"

#include <cmath>
#include <cstddef>
#include <vector>

namespace plimsoll::models {
namespace {

// What a matrix says of each class.
struct Counts {
  explicit Counts(std::span<const double> confusion)
      : classes(static_cast<size_t>(std::lround(std::sqrt(confusion.size())))),
        right(classes),
        labels(classes),
        predictions(classes) {
    for (size_t label = 0; label < classes; ++label) {
      for (size_t prediction = 0; prediction < classes; ++prediction) {
        const double count = confusion[label * classes + prediction];
        labels[label] += count;
        predictions[prediction] += count;
        if (label == prediction) right[label] = count;
      }
    }
  }

  size_t classes;
  std::vector<double> right, labels, predictions;
};

}  // namespace

double F1(std::span<const double> confusion) {
  const Counts counts(confusion);
  double sum = 0, occurring = 0;
  for (size_t k = counts.classes == 2 ? 1 : 0; k < counts.classes; ++k) {
    const double either = counts.labels[k] + counts.predictions[k];
    if (either == 0) continue;
    sum += 2 * counts.right[k] / either;
    ++occurring;
  }
  return occurring == 0 ? 0 : sum / occurring;
}

double Mcc(std::span<const double> confusion) {
  const Counts counts(confusion);
  double right = 0, samples = 0, products = 0, predictions = 0, labels = 0;
  for (size_t k = 0; k < counts.classes; ++k) {
    const double t = counts.labels[k], p = counts.predictions[k];
    right += counts.right[k];
    samples += t;
    products += p * t;
    predictions += p * p;
    labels += t * t;
  }
  const double squares = (samples * samples - predictions) * (samples * samples - labels);
  return squares <= 0 ? 0 : (right * samples - products) / std::sqrt(squares);
}

}  // namespace plimsoll::models
