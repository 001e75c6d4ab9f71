// Errors about a trained model's results that are NaN or infinite.
#pragma once

#include <string>

#include "base/error.h"
#include "trainer/save_and_resume/trained_model.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// The error for NaN or infinite logits or losses: no result can be reported or drawn. Its exit code
// is not 2 (user mistakes), because the work had begun.
class NotFinite : public UserError {
 public:
  explicit NotFinite(const std::string& message) : UserError(message, ExitCode::kInternal) {}
};

// Makes the error for a model that was loaded into `session` in type `dtype`. Says which weight is
// not finite or, if all weights are finite, that numbers overflow later. `what` is the symptom:
// "the held-out loss is nan".
NotFinite ExplainNotFinite(const TrainedModel& trained, Session& session, const std::string& dtype,
                           const std::string& what);

}  // namespace plimsoll::trainer
