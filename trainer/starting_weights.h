// The weights that a run begins with: new ones, a folder's, with adapters or without, or a
// snapshot's.
#pragma once

#include <string>
#include <vector>

#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/resolve/ranks.h"
#include "trainer/save_and_resume/resume.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// Of the weights that adapters are trained over (models::WeightsChecksum); empty without adapters.
// All ranks call; the first of them reads the files.
std::string BaseChecksum(const config::RunConfig& config, Ranks& ranks);

struct StartingWeights {
  const config::RunConfig& config;
  const models::Model& model;
  Ranks& ranks;
  Session& session;
  const Resumed* resumed;   // nullptr: the run starts from the beginning
  const std::string& base;  // BaseChecksum

  // What Fill does: "making 3.24M weights".
  std::string Text() const;
  // All ranks call. The first says what starts afresh, which tokens are new, and whether adapters
  // were trained over another base. UserError where adapters leave what starts afresh untrained.
  void Fill() const;

 private:
  void SayFresh(const std::vector<std::string>& fresh) const;
  void SayNewTokens() const;
  void RequireTrained(const std::vector<std::string>& fresh) const;
  void SayOtherBase() const;
};

}  // namespace plimsoll::trainer
