// How tightly memory/placement packs public instances of offline dynamic storage allocation, and
// whether it proves that no placement is tighter.
//
//   placement_instances FILE.csv … [--work PAIRS] [--exact-work PAIRS] [--capacity BYTES]
//
// Files have a head and a line per buffer: id, first time, time at which it is no longer alive,
// bytes ("id,lower,upper,size"), in any order of columns. So do the instances of
// google/minimalloc (benchmarks/challenging, capacity 1048576) and those of cappadokes/idealloc
// (benchmarks). "load" is the lower bound, the most bytes alive at a time;
// "seconds" are of processor time.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "memory/placement.h"

namespace plimsoll {
namespace {

std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) {
    while (!cell.empty() && (cell.back() == '\r' || cell.back() == ' ')) cell.pop_back();
    cells.push_back(cell);
  }
  return cells;
}

std::vector<memory::Interval> Read(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) throw UserError(path + ": can't be read, or is empty");
  const std::vector<std::string> head = Cells(line);
  auto column = [&](const std::string& name) {
    const auto found = std::find(head.begin(), head.end(), name);
    if (found == head.end()) throw UserError(fmt::format("{}: no column '{}'", path, name));
    return static_cast<size_t>(found - head.begin());
  };
  const size_t lower = column("lower"), upper = column("upper"), size = column("size");
  std::vector<memory::Interval> intervals;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = Cells(line);
    if (cells.empty()) continue;
    if (cells.size() < head.size()) throw UserError(fmt::format("{}: short line {}", path, line));
    intervals.push_back(
        {std::stoll(cells[size]), std::stoi(cells[lower]), std::stoi(cells[upper]) - 1});
  }
  return intervals;
}

void Check(const std::vector<memory::Interval>& intervals, const memory::Placement& placement) {
  const std::vector<int64_t>& at = placement.offsets;
  for (size_t a = 0; a < intervals.size(); ++a) {
    const int64_t end = at[a] + intervals[a].size;
    if (at[a] < 0 || end > placement.extent) throw UserError("a buffer lies outside the extent");
    for (size_t b = 0; b < a; ++b) {
      if (intervals[a].Meets(intervals[b]) && at[b] < end && at[a] < at[b] + intervals[b].size) {
        throw UserError(fmt::format("buffers {} and {} overlap", b, a));
      }
    }
  }
}

void Run(const std::string& path, memory::PlacementOptions options) {
  const std::vector<memory::Interval> intervals = Read(path);
  options.alignment = 1;
  const std::clock_t begin = std::clock();
  const memory::Placement placement = memory::Place(intervals, options);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  Check(intervals, placement);
  fmt::print("{:<24} {:>7} {:>15} {:>15} {:>8.5f} {:>7} {:>9} {:>7.2f}",
             path.substr(path.find_last_of('/') + 1), intervals.size(), placement.max_live,
             placement.extent,
             static_cast<double>(placement.extent) / static_cast<double>(placement.max_live),
             placement.proved ? "yes" : "no", placement.nodes, seconds);
  if (options.target > 0) {
    fmt::print("  {}", placement.extent <= options.target ? "fits" : "does not fit");
  }
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  CLI::App app("Packs buffers with known lifetimes");
  plimsoll::memory::PlacementOptions options;
  std::vector<std::string> files;
  app.add_option("files", files)->required();
  app.add_option("--work", options.work, "Bound of the heuristics");
  app.add_option("--exact-work", options.exact_work, "Bound of the exact search");
  app.add_option("--capacity", options.target, "An extent that is good enough");
  CLI11_PARSE(app, argc, argv);
  try {
    fmt::print("{:<24} {:>7} {:>15} {:>15} {:>8} {:>7} {:>9} {:>7}\n", "file", "buffers", "load",
               "extent", "ratio", "proved", "nodes", "seconds");
    for (const std::string& file : files) plimsoll::Run(file, options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
