// Formats the confusion matrix of a classifier as text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/columns.h"
#include "formats/json.h"
#include "trainer/language/eval.h"

namespace plimsoll::trainer {
namespace {

constexpr size_t kMostColumns = 100;  // longest line for which names are shown above its numbers
constexpr size_t kMostName = 24;      // longest name, in columns
constexpr size_t kWorst = 5;          // number of classes listed
constexpr size_t kConfusions = 10;

// Formats cells as lines. The first `left` columns are aligned left, the others right.
std::string Aligned(const std::vector<std::vector<std::string>>& rows, size_t left) {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Columns(row[i]));
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - Columns(row[i]), ' ');
      line += "  " + (i < left ? row[i] + space : space + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

// A fraction as text: "97.3 %"; "-" if `all` is 0.
std::string Share(double part, double all) {
  return all == 0 ? "-" : fmt::format("{:.1f} %", 100 * part / all);
}
std::string Count(double count) { return fmt::format("{:.0f}", count); }

class Matrix {
 public:
  Matrix(std::span<const double> counts, const std::vector<std::string>& names)
      : classes_(static_cast<size_t>(std::lround(std::sqrt(counts.size())))),
        counts_(counts),
        labels_(classes_),
        predictions_(classes_) {
    for (size_t label = 0; label < classes_; ++label) {
      for (size_t prediction = 0; prediction < classes_; ++prediction) {
        labels_[label] += at(label, prediction);
        predictions_[prediction] += at(label, prediction);
      }
      names_.push_back(label < names.size() ? Shortened(formats::Printable(names[label]), kMostName)
                                            : std::to_string(label));
    }
    named_ = !names.empty();
  }

  std::string Whole() const {
    // Shows names above the numbers only if lines stay short.
    size_t columns = kMostName;
    for (size_t k = 0; k < classes_; ++k) columns += 2 + std::max<size_t>(7, Columns(names_[k]));
    const bool heads = named_ && columns <= kMostColumns;
    const auto row_name = [&](size_t k) {
      return named_ && !heads ? fmt::format("{} {}", k, names_[k]) : names_[k];
    };
    std::vector<std::vector<std::string>> rows(1);
    rows[0].push_back("label");
    for (size_t k = 0; k < classes_; ++k) rows[0].push_back(heads ? names_[k] : std::to_string(k));
    rows[0].push_back("recall");
    for (size_t label = 0; label < classes_; ++label) {
      std::vector<std::string>& row = rows.emplace_back();
      row.push_back(row_name(label));
      for (size_t k = 0; k < classes_; ++k) row.push_back(Count(at(label, k)));
      row.push_back(Share(at(label, label), labels_[label]));
    }
    std::vector<std::string>& last = rows.emplace_back();
    last.push_back("precision");
    for (size_t k = 0; k < classes_; ++k) last.push_back(Share(at(k, k), predictions_[k]));
    return "how often each label (row) was taken for each class (column):\n" + Aligned(rows, 1);
  }

  std::string Worst() const {
    std::vector<size_t> order;
    for (size_t k = 0; k < classes_; ++k) {
      if (labels_[k] > 0) order.push_back(k);
    }
    std::ranges::stable_sort(order, {}, [&](size_t k) { return at(k, k) / labels_[k]; });
    order.resize(std::min(order.size(), kWorst));
    std::vector<std::vector<std::string>> rows = {{"class", "recall", "precision", "labels"}};
    for (const size_t k : order) {
      rows.push_back({names_[k], Share(at(k, k), labels_[k]), Share(at(k, k), predictions_[k]),
                      Count(labels_[k])});
    }
    return fmt::format("of {} classes, those of the lowest recall:\n{}", classes_,
                       Aligned(rows, 1));
  }

  std::string MostConfused() const {
    struct Pair {
      size_t label, prediction;
    };
    std::vector<Pair> pairs;
    for (size_t label = 0; label < classes_; ++label) {
      for (size_t k = 0; k < classes_; ++k) {
        if (k != label && at(label, k) > 0) pairs.push_back({label, k});
      }
    }
    if (pairs.empty()) return "no class was taken for another\n";
    std::ranges::stable_sort(pairs, std::greater(),
                             [&](const Pair& pair) { return at(pair.label, pair.prediction); });
    pairs.resize(std::min(pairs.size(), kConfusions));
    std::vector<std::vector<std::string>> rows = {{"label", "taken for", "times", "of its labels"}};
    for (const auto& [label, prediction] : pairs) {
      const double times = at(label, prediction);
      rows.push_back(
          {names_[label], names_[prediction], Count(times), Share(times, labels_[label])});
    }
    return "the most frequent confusions:\n" + Aligned(rows, 2);
  }

  size_t classes() const { return classes_; }

 private:
  double at(size_t label, size_t prediction) const {
    return counts_[label * classes_ + prediction];
  }

  size_t classes_;
  std::span<const double> counts_;
  std::vector<double> labels_, predictions_;  // sums over rows and columns of the matrix
  std::vector<std::string> names_;
  bool named_ = false;  // whether the data names the classes
};

}  // namespace

std::string ConfusionText(std::span<const double> counts, const std::vector<std::string>& names) {
  const Matrix matrix(counts, names);
  if (matrix.classes() <= kMostShownClasses) return matrix.Whole();
  return matrix.Worst() + matrix.MostConfused();
}

}  // namespace plimsoll::trainer
