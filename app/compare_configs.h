// `plimsoll config A --diff B`: the keys in which two resolved configurations differ.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

struct ConfigDifference {
  std::string key;
  std::string left, right;  // as in a file; empty: does not apply to that configuration, or not set
};

// In the order of the reference.
std::vector<ConfigDifference> CompareConfigs(const config::RunConfig& left,
                                             const config::RunConfig& right);

// `left` and `right` are run files or run directories, `sets` override keys of both. With `json`
// the text is a list of objects, otherwise a table; both end with a newline.
std::string ConfigComparison(const std::string& left, const std::string& right,
                             const std::vector<std::string>& sets, bool json);

}  // namespace plimsoll::trainer
