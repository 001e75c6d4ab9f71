// The chat template of a run (data.chat_template), stored next to its weights as
// chat_template.jinja.
#pragma once

#include <string>

#include "snapshots/snapshot.h"
#include "trainer/config/run_config.h"
#include "trainer/save_and_resume/trained_model.h"

namespace plimsoll::trainer {

// data.chat_template from the configuration, or else from the snapshot's record, because the
// configuration of a snapshot alone has no data. `snapshot` may be null. Empty means that the run
// has no template of its own.
std::string ChatTemplateOfRun(const config::RunConfig& config, const snapshots::Snapshot* snapshot);
std::string ChatTemplateOfRun(const TrainedModel& trained);

// The text of a template, which is a Jinja file or "chatml". `copy` is an earlier
// chat_template.jinja, used instead of the file if it exists. Empty if there is no template or,
// with a warning, if the template cannot be read.
std::string ChatTemplateText(const std::string& chat_template, const std::string& copy = "");

}  // namespace plimsoll::trainer
