// The chat template of a run (data.chat_template), which goes along with its weights as
// chat_template.jinja.
#pragma once

#include <string>

#include "snapshots/snapshot.h"
#include "trainer/config/run_config.h"
#include "trainer/save_and_resume/trained_model.h"

namespace plimsoll::trainer {

// data.chat_template of the configuration or, where that has none, of the snapshot's record: the
// configuration of a snapshot alone has no data. `snapshot` may be null. Empty: the run has none of
// its own.
std::string ChatTemplateOfRun(const config::RunConfig& config, const snapshots::Snapshot* snapshot);
std::string ChatTemplateOfRun(const TrainedModel& trained);

// The text of such a template, a Jinja file or "chatml"; of `copy`, an earlier chat_template.jinja,
// where that is a file. Empty without a template, or with a warning if it cannot be read.
std::string ChatTemplateText(const std::string& chat_template, const std::string& copy = "");

}  // namespace plimsoll::trainer
