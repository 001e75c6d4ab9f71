// Runs drawn at random: what decides their numbers, and what may not change them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace plimsoll {

struct Composition {
  // The program that trains it: the one with docs/examples' families where there are several
  // objectives.
  std::string program;
  int ranks = 1;
  int stages = 1;  // each of that many ranks, where the techniques ask for a pipeline
  // The files of its data, by name. Run files call their folder {folder}.
  std::map<std::string, std::string> files;
  // A run file of a model whose weights it starts from, to train adapters; empty: it starts afresh.
  std::string base;
  // A run file: model, data, types, optimizer, micro-steps, mesh.
  std::string yaml;
  // "key=value": where bytes are, what is computed again, in which order, on how many threads and
  // stages. The documentation promises that none of these changes a bit.
  std::vector<std::string> techniques;
  // A part of the way from the smallest plan to that of the run without techniques; negative: there
  // is no budget.
  double budget = -1;
};

// The same for a seed on every machine.
Composition Draw(uint64_t seed);

}  // namespace plimsoll
