// What a confusion matrix says, for people.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace plimsoll::trainer {

// `counts`: C rows of C numbers, [label][prediction]. `names`: of the classes; empty: they have
// numbers. A matrix of at most this many classes is shown whole, with the recall of each label and
// the precision of each prediction; of a larger one, the classes of the lowest recall and the most
// frequent confusions. Lines that each end with a newline.
inline constexpr size_t kMostShownClasses = 12;
std::string ConfusionText(std::span<const double> counts, const std::vector<std::string>& names);

}  // namespace plimsoll::trainer
