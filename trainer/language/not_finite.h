// Results of a trained model that are no numbers.
#pragma once

#include <string>

#include "base/error.h"
#include "trainer/snapshot/trained_model.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// Logits or a loss with NaN or infinity in it: nothing can be told or drawn from them. The work had
// begun, so this is no mistake of the kind that code 2 stands for.
class NotFinite : public UserError {
 public:
  explicit NotFinite(const std::string& message) : UserError(message, ExitCode::kInternal) {}
};

// Of a model that was loaded into `session`, in that type: says whether its weights are the reason,
// and of which parameter, or numbers overflow on the way. `what`: "the held-out loss is nan".
NotFinite ExplainNotFinite(const TrainedModel& trained, Session& session, const std::string& dtype,
                           const std::string& what);

}  // namespace plimsoll::trainer
