// Errors about a trained model's results that are NaN or infinite.
#pragma once

#include <string>

#include "base/error.h"
#include "trainer/save_and_resume/trained_model.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// Logits or a loss with NaN or infinity: no result can be reported or drawn. The work had begun, so
// this is not a user mistake, which exit code 2 stands for.
class NotFinite : public UserError {
 public:
  explicit NotFinite(const std::string& message) : UserError(message, ExitCode::kInternal) {}
};

// For a model that was loaded into `session` in type `dtype`: says whether its weights are the
// cause, and in which parameter, or whether numbers overflow later. `what`: "the held-out loss is
// nan".
NotFinite ExplainNotFinite(const TrainedModel& trained, Session& session, const std::string& dtype,
                           const std::string& what);

}  // namespace plimsoll::trainer
