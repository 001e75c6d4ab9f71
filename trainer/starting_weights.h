// The weights with which a run begins: random weights, or the weights of a folder or a snapshot,
// with adapters or without.
#pragma once

#include <string>
#include <vector>

#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/resolve/ranks.h"
#include "trainer/save_and_resume/resume.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// The checksum of the base weights over which adapters are trained (models::WeightsChecksum); empty
// without adapters. All ranks call this; the first rank reads the files.
std::string BaseChecksum(const config::RunConfig& config, Ranks& ranks);

struct StartingWeights {
  const config::RunConfig& config;
  const models::Model& model;
  Ranks& ranks;
  Session& session;
  const Resumed* resumed;   // nullptr if the run starts from the beginning
  const std::string& base;  // result of BaseChecksum

  // A description of Fill's work: "making 3.24M weights".
  std::string Text() const;
  // Sets the weights. All ranks call this. The first rank reports newly initialized parameters, new
  // tokens, and adapters that were trained over a base other than this run's. Throws a UserError if
  // newly initialized parameters would stay untrained next to adapters.
  void Fill() const;

 private:
  void SayFresh(const std::vector<std::string>& fresh) const;
  void SayNewTokens() const;
  void RequireTrained(const std::vector<std::string>& fresh) const;
  void SayOtherBase() const;
};

}  // namespace plimsoll::trainer
